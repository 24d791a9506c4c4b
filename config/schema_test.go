package config

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestTheCommittedSchemaIsCurrent(t *testing.T) {
	golden(t, "../docs/config.schema.json", Schema())
}

func TestFilesThatLoadAreValidBySchema(t *testing.T) {
	schema := compiled(t)
	for _, path := range files(t, "valid/*.yaml") {
		t.Run(sentence(path), func(t *testing.T) {
			var value any
			if err := yaml.Unmarshal(read1(t, path), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil && value != nil {
				t.Error(err)
			}
		})
	}
}

// The schema refuses what a schema can refuse: wrong kinds, unknown keys, missing units, unknown words.
func TestFilesThatAreWrongByThemselvesAreInvalidBySchema(t *testing.T) {
	schema := compiled(t)
	for _, name := range []string{
		"an_unknown_key_with_a_likely_name", "a_number_without_a_unit", "values_of_another_kind", "words_that_are_not_known",
		"numbers_out_of_range", "handlers_of_no_or_several_sorts", "backoffs_that_contradict_themselves", "schedules_of_wrong_values",
		"a_list_at_the_top",
	} {
		var value any
		if err := yaml.Unmarshal(read1(t, "testdata/wrong/"+name+".yaml"), &value); err != nil {
			t.Fatal(err)
		}
		if schema.Validate(value) == nil {
			t.Errorf("%s is valid", sentence(name))
		}
	}
}

func read1(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheCommittedReferenceIsCurrent(t *testing.T) {
	const path = "../docs/config.md"
	const begin, end = "<!-- begin: written by go test ./config -update -->\n", "<!-- end -->\n"
	page := read1(t, path)
	head, rest, ok := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the reference", path)
	}
	golden(t, path, bytes.Join([][]byte{head, []byte(begin), []byte("\n"), Reference(), []byte(end), tail}, nil))
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, s := range sections() {
		for _, f := range s.is.fields {
			if f.doc == "" || f.is == nil || f.at == nil {
				t.Errorf("%v.%s lacks something", s.path, f.name)
			}
			if f.required && f.def != "" {
				t.Errorf("%v.%s is required and has a default", s.path, f.name)
			}
		}
	}
}
