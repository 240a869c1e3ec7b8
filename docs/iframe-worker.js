// Browsers start no worker for a page that was opened from disk: there the search's worker runs in a hidden frame.
// The theme's offline mode loads a file of this name from another host unless the site brings one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.tell(new MessageEvent("message", { data }));
      this.ready = new Promise((ready) => {
        const script = inner.document.createElement("script");
        script.src = url;
        script.onload = ready;
        script.onerror = () => this.tell(new ErrorEvent("error", { message: `${url} cannot be loaded` }));
        inner.document.body.append(script);
      });
    }
    tell(event) {
      this.dispatchEvent(event);
      this[`on${event.type}`]?.(event);
    }
    postMessage(data) {
      const inner = this.frame.contentWindow;
      // A worker gets a copy, which it may change.
      const copy = structuredClone(data);
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data: copy })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
