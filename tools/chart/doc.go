// Package chart tests the Helm chart with the library of Helm, which takes minutes to compile. So it is a module of its own, and
// `make chart` runs it after a change of the chart. The files that it renders are checked in, and a test in deploy, which runs with all
// others, fails when the chart has changed since.
package chart
