// Package config reads the YAML file of `taskengine run` into plain typed data.
//
// [Load] goes four steps, one file each: parse.go makes a tree of the text, set.go
// changes the tree by --set, decode.go fills a [Config] from the tree as the table in
// table.go describes, and check.go compares the parts with each other. Every step goes
// on after a problem, so that all of them are told at once, each with its place.
//
// The table is the only description of the file. The decoding, the JSON Schema
// ([Schema]) and the reference ([Reference]) all come from it.
//
// [Source], [ParseDuration], [ParseSize], [ParseRate] and [DidYouMean] are for other files of this
// module that people write in YAML.
package config
