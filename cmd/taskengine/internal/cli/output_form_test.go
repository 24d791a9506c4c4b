package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// in returns what print writes in a form.
func in(t interface{ Fatal(...any) }, form string, print func(a *app) error) string {
	a, out := onTerminal(80)
	a.outTTY = false
	if err := a.output.Set(form); err != nil {
		t.Fatal(err)
	}
	if err := print(a); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEachThingHasTheNameThatVerbsTake(t *testing.T) {
	for want, m := range map[string]proto.Message{
		anID:            &taskenginev1.Task{Id: anID, Key: "k"},
		"partner/ac/me": aLimit,
		"total":         &taskenginev1.Limit{Name: "total"},
		"n1":            &taskenginev1.Node{Name: "n1", Id: anID},
		"w-1":           &taskenginev1.Worker{Id: "w-1", Name: "mailer", ConnectedAt: aLimit.GetSetting().GetAt()},
		"nightly":       &taskenginev1.Schedule{Name: "nightly", TaskId: anID},
		"orders/shop-a": &taskenginev1.Platform{Source: "orders", Name: "shop-a"},
		"purge":         &taskenginev1.BulkJob{Name: "purge", TaskId: anID},
		"stock":         &taskenginev1.Document{Key: "stock"},
		"of a workflow": &taskenginev1.Workflow{Name: "import", Task: &taskenginev1.Task{Id: "of a workflow"}},
		"of a tree":     &taskenginev1.TreeTask{Task: &taskenginev1.Task{Id: "of a tree"}},
		"two\\nlines":   &taskenginev1.OrderingKey{Key: "two\nlines"},
	} {
		if got := in(t, "name", func(a *app) error { return a.printMessage(m) }); got != want+"\n" {
			t.Errorf("the name is %q, want %q", got, want)
		}
	}
}

// The events of a name are those of tasks.
func TestAGapOfEventsHasNoName(t *testing.T) {
	for _, kind := range []string{"gap", "silent"} {
		if got := in(t, "name", func(a *app) error { return a.printJSON(map[string]any{"kind": kind}) }); got != "" {
			t.Errorf("it is %q", got)
		}
	}
}

// YAML has the same values as JSON, whatever they are, and a terminal obeys none of them.
func TestYAMLIsTheSameValue(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "true", "1e3", "~", "2026-01-01", "- a", "a: b", "\x1b[2J", "\u202e", "\u009b2J", "two\nlines\n", "😀", "\U000e0001", " x ", "#"}))
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{
			"list": rapid.SliceOfN(text, 0, 3).Draw(t, "list"), "map": rapid.MapOfN(text, text, 0, 3).Draw(t, "map"),
			"number": rapid.Int64().Draw(t, "number"), "yes": rapid.Bool().Draw(t, "yes"), "none": nil, "text": text.Draw(t, "text"),
		}
		shown := in(t, "yaml", func(a *app) error { return a.printJSON(value) })
		if strings.ContainsAny(shown, "\x1b\u202e\u009b\x7f") {
			t.Fatalf("a terminal gets %q", shown)
		}
		var read map[string]any
		if err := yaml.Unmarshal([]byte(shown), &read); err != nil {
			t.Fatalf("%v in\n%s", err, shown)
		}
		got, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%s is read back as %s:\n%s", want, got, shown)
		}
	})
}

func TestYAMLHasTheFieldsInTheirOrderAndALineBetweenDocuments(t *testing.T) {
	got := in(t, "yaml", func(a *app) error {
		return printMessages(a, []*taskenginev1.OrderingKey{{Key: "b"}, {Key: "a", Head: &taskenginev1.Task{Payload: []byte(`{"z": 1.50, "a": "\ud83d\ude00"}`)}}})
	})
	if first, second, ok := strings.Cut(got, "---\n"); !ok || !strings.HasPrefix(first, "key: b\n") || !strings.Contains(second, "    z: 1.50\n    a: ") {
		t.Errorf("it is\n%s", got)
	}
}

func TestATemplateHasEveryText(t *testing.T) {
	done := &taskenginev1.Task{Id: anID, State: "done", CreatedAt: aLimit.GetSetting().GetAt(), Result: []byte(`{"n": 1}`), Awaits: []string{"a", "b"}}
	for text, want := range map[string]string{
		"{{.id}}{{.key}}{{.error}}":           anID,
		"{{short .id}}":                       anID[:18],
		"{{.result.n}} {{json .result}}":      `1 {"n":1}`,
		`{{join .awaits "+"}}`:                "a+b",
		"{{if .parent}}child{{else}}-{{end}}": "-",
		"{{with .next_event_at}}x{{end}}":     "",
	} {
		if got := in(t, "template="+text, func(a *app) error { return a.printMessage(done) }); got != want+"\n" {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if got := in(t, "template={{age .created_at}}", func(a *app) error { return a.printMessage(done) }); !strings.HasSuffix(got, "d\n") {
		t.Errorf("the age is %q", got)
	}
	a, out := onTerminal(80)
	if err := a.output.Set("template={{.key}}"); err != nil {
		t.Fatal(err)
	}
	if err := a.printMessage(&taskenginev1.Task{Key: "\x1b[2J"}); err != nil || out.String() != "\\x1b[2J\n" {
		t.Errorf("a terminal gets %q: %v", out, err)
	}
}

// The nodes that did not answer are among data that a program reads, and not among names.
func TestNamesHaveNoLineAboutSilentNodes(t *testing.T) {
	silent := []*taskenginev1.SilentNode{{Node: "n2", Problem: "gone"}}
	for form, want := range map[string]string{"name": "", "template={{.name}}": "", "yaml": "silent:\n  - node: n2\n    problem: gone\n", "json": `{"silent":[{"node":"n2","problem":"gone"}]}` + "\n"} {
		a, out := onTerminal(80)
		a.stderr = new(bytes.Buffer)
		if err := a.output.Set(form); err != nil {
			t.Fatal(err)
		}
		if err := a.partial(silent, true); err == nil {
			t.Errorf("-o %s: no error", form)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("-o %s: %s", form, diff)
		}
	}
}
