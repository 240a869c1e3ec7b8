"""HTML pages in one design: base layout, stylesheet and components, for every report that edgedla writes."""
