/* Stands in for libnvinfer, libnvinfer_plugin, libnvonnxparser and libnvparsers: the C symbols that TensorRT's Python
   bindings need to be imported. Every function answers "nothing"; only the bindings' surface is read, nothing is run. */
void *createInferBuilder_INTERNAL(void) { return 0; }
void *createInferRuntime_INTERNAL(void) { return 0; }
void *createInferRefitter_INTERNAL(void) { return 0; }
void *getPluginRegistry(void) { return 0; }
void *getBuilderPluginRegistry(void) { return 0; }
void *createNvOnnxParser_INTERNAL(void) { return 0; }
void *createNvOnnxParserRefitter_INTERNAL(void) { return 0; }
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void) { return 0; }
/* 8.6 only: the UFF and Caffe parsers, under their C++ names. */
void *_ZN11nvuffparser15createUffParserEv(void) { return 0; }
void _ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi(void) {}
void *_ZN14nvcaffeparser117createCaffeParserEv(void) { return 0; }
void _ZN14nvcaffeparser123shutdownProtobufLibraryEv(void) {}
