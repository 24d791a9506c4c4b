package chart

import _ "embed"

//go:embed chart.css
var style string

// Style returns the style sheet of drawings. It defines the colours of the page around them as well, as variables: light ones, or dark ones
// if the reader prefers these.
func Style() string { return style }
