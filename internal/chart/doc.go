// Package chart draws lines and bars as SVG without scripts, for reports and for the dashboard. A drawing has classes, and
// the style sheet Style gives them the colours of the page, dark or light. Every drawing has a title and a description for readers of
// a screen.
//
//	frame.go    axes with lines, spreads, goals and marks
//	bars.go     bars below each other
//	axis.go     ranges and ticks
//	element.go  elements of SVG, with their text escaped
package chart
