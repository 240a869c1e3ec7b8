"""HTML pages of one look: base layout, stylesheet and components, for every report that edgedla writes."""
