"""Makes the pages of the documentation: `python -m docs.generator FOLDER`."""
