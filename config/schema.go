package config

import (
	"encoding/json"
	"strings"
)

// document is a part of a JSON Schema.
type document map[string]any

// Patterns of the values that have units.
const (
	durationPattern  = `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d|w))+$`
	sizePattern      = `^([0-9]+(\.[0-9]+)?(B|kB|MB|GB|KiB|MiB|GiB))+$`
	ratePattern      = `^[0-9]+/(([0-9]+(\.[0-9]+)?)?(ns|us|ms|s|m|h|d|w))+$`
	referencePattern = `^\$\{(file:.+|[A-Za-z_][A-Za-z0-9_]*)\}$`
)

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. A file that Load
// accepts is valid. A valid file may still name limits or handlers that do not exist.
func Schema() []byte {
	doc := root.schema()
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "taskengine configuration"
	text := func(pattern, example string) document {
		return orReference(document{"type": "string", "pattern": pattern, "examples": []string{example}})
	}
	doc["$defs"] = document{
		"reference": document{"type": "string", "pattern": referencePattern},
		"duration":  text(durationPattern, "30s"),
		"keeping":   document{"anyOf": []document{{"const": "forever"}, {"$ref": "#/$defs/duration"}}},
		// YAML 1.1 reads off as false.
		"liveness": document{"anyOf": []document{{"enum": []any{"off", false}}, {"$ref": "#/$defs/duration"}}},
		"size":     text(sizePattern, "64KiB"),
		"rate":     text(ratePattern, "20/1s"),
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // a document holds maps, slices, strings and numbers only
	}
	return append(out, '\n')
}

// orReference allows a reference in place of the value. Any text may be a reference.
func orReference(d document) document {
	if d["type"] == "string" && d["pattern"] == nil {
		return d
	}
	return document{"anyOf": []document{d, {"$ref": "#/$defs/reference"}}}
}

func (o *object) schema() document {
	properties, required := document{}, []string{}
	for _, f := range o.fields {
		is := document{"description": f.doc}
		for k, v := range f.is.schema() {
			is[k] = v
		}
		if f.def != "" {
			is["default"] = plainValue(f.def)
		}
		properties[f.name] = is
		if f.required {
			required = append(required, f.name)
		}
	}
	doc := document{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		doc["required"] = required
	} else {
		doc["type"] = []string{"object", "null"}
	}
	var groups []document
	for _, group := range o.rivals {
		groups = append(groups, document{"anyOf": atMostOne(group)})
	}
	if len(groups) > 0 {
		doc["allOf"] = groups
	}
	return doc
}

// atMostOne returns alternatives, of which one holds if at most one of some keys is given.
func atMostOne(keys []string) (alone []document) {
	for _, key := range keys {
		var others []document
		for _, other := range keys {
			if other != key {
				others = append(others, document{"required": []string{other}})
			}
		}
		alone = append(alone, document{"not": document{"anyOf": others}})
	}
	return alone
}

func (t table[V]) schema() document {
	return document{"type": []string{"object", "null"}, "additionalProperties": t.is.schema()}
}

func (t table[V]) words() string { return "a mapping of " + t.of }

func (o *object) words() string { return "a mapping" }

func (s sequence[V]) schema() document {
	many := document{"type": "array", "items": s.is.schema()}
	if s.least > 0 {
		many["minItems"] = s.least
	} else {
		many["type"] = []string{"array", "null"}
	}
	if s.most > 0 {
		many["maxItems"] = s.most
	}
	if !s.single {
		return many
	}
	return document{"anyOf": []document{many, s.is.schema()}}
}

func (s sequence[V]) words() string {
	each := strings.TrimPrefix(s.is.words(), "a ")
	each = strings.TrimPrefix(each, "the ")
	if s.single {
		return "a list, each a " + each + ", or one of them alone"
	}
	return "a list in brackets, each a " + each
}

func (s short) schema() document {
	return document{"anyOf": []document{s.value.schema(), s.object.schema()}}
}

func (vs variants) schema() document {
	var each []document
	for _, v := range vs {
		each = append(each, v.is.schema())
	}
	return document{"oneOf": each}
}

// plainValue converts a default of the table to a JSON value.
func plainValue(def string) any {
	n := parse(&source{text: def}, &findings{})
	return n.plain()
}

func (n *node) plain() any {
	switch n.kind {
	case mapping:
		m := document{}
		for _, e := range n.entries {
			m[e.key] = e.value.plain()
		}
		return m
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.plain()
		}
		return items
	case scalar:
		if !n.quoted && (n.tag == "!!int" || n.tag == "!!float" || n.tag == "!!bool") {
			return json.RawMessage(n.text)
		}
		return n.text
	}
	return nil
}
