// Package config reads the YAML file of `taskengine run` into plain typed data.
//
// [Load] has four steps, one file each: parse.go makes a tree of the text, set.go changes the
// tree by --set, decode.go fills a [Config] from the tree as the table in table.go describes, and
// check.go compares the parts with each other. Every step continues after a problem, so that one error has all problems, each with its place.
//
// The table is the only description of the file. The decoding, the JSON Schema
// ([Schema]) and the reference ([Reference]) all come from it.
//
// A [Reader] reads the other YAML files of this module, such as the scenarios of the benchmarks,
// with the same strictness and the same messages.
package config
