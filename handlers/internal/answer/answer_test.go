package answer_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/task"
)

// The clocks of this machine and of the nodes differ by an hour.
var (
	here  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	nodes = here.Add(time.Hour)
	now   = answer.Now{Here: here, Nodes: nodes}
	rules = answer.Rules{MayAdd: []string{"page", "mail-*"}, MaySignal: []string{"order"}, MayWrite: []string{"stock/*"}}
)

func ptr[T any](v T) *T { return &v }

func parseID(t *testing.T, s string) task.ID {
	t.Helper()
	id, err := task.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestADocumentBecomesTheEndOfTheAttempt(t *testing.T) {
	const some = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	done := func(result string, r *task.Rerun) task.Verdict {
		return task.Verdict{Outcome: task.Completed, Result: []byte(result), Rerun: r}
	}
	failed := func(v task.Verdict) task.Verdict {
		v.Outcome = task.Errored
		if v.Delay == 0 {
			v.Delay = -1
		}
		return v
	}
	for document, want := range map[string]task.Verdict{
		`{}`:                          done("printed", nil),
		` {"result": {"a": [1, 2]}} `: done(`{"a": [1, 2]}`, nil),
		`{"result": null}`:            done(`null`, nil),
		`{"result": "a"}`:             done(`"a"`, nil),
		`{"result_text": "a\n"}`:      done("a\n", nil),
		`{"result_text": ""}`:         done("", nil),
		`{"result_base64": "AP8="}`:   done("\x00\xff", nil),
		`{"result": 1e400}`:           done("1e400", nil), // as it stands there

		`{"again": {"delay": "5m"}}`: {Outcome: task.Completed, Result: []byte("printed"), Again: here.Add(5 * time.Minute)},
		`{"again": {"at": "2026-12-01T10:00:00+02:00"}, "payload": [1], "checkpoint_text": "p"}`: {
			Outcome: task.Completed, Result: []byte("printed"), Again: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC),
			Rerun: &task.Rerun{Payload: ptr([]byte("[1]")), Checkpoint: ptr([]byte("p"))},
		},
		`{"wait": {"signals": ["paid", "refused"]}}`: {Outcome: task.Completed, Result: []byte("printed"), Await: []string{"paid", "refused"}},
		`{"wait": {"signals": ["stop"], "children": [{"name": "page"}]}}`: {
			Outcome: task.Completed, Result: []byte("printed"), Await: []string{task.AwaitsChildren, "stop"}, Children: []task.ChildrenWait{{Name: "page"}},
		},
		`{"wait": {"signals": ["paid"], "timeout": "48h"}, "result": 7}`: {
			Outcome: task.Completed, Result: []byte("7"), Await: []string{"paid"}, Again: here.Add(48 * time.Hour),
		},
		`{"wait": {"children": [{"name": "page", "count": 3, "or_failed": true}, {"name": "mail"}], "until": "2026-12-01T10:00:00Z"},
			"children": {"page": [{"type": "page", "payload": {"n": 1}}, {"type": "page", "in": "1h"}], "mail": []}}`: {
			Outcome: task.Completed, Result: []byte("printed"), Await: []string{task.AwaitsChildren}, Again: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
			Children: []task.ChildrenWait{{Name: "page", Count: 3, OrFailed: true}, {Name: "mail"}},
			Rerun: &task.Rerun{Children: []task.ChildRequests{
				{Name: "page", Requests: []task.Request{{Type: "page", Payload: []byte(`{"n": 1}`)}, {Type: "page", At: nodes.Add(time.Hour)}}}, {Name: "mail"},
			}},
		},
		`{"tasks": [{"type": "mail-eu", "id": "` + some + `", "key": "k", "ordering_key": "o", "priority": 0, "payload_base64": "AP8=",
			"at": "2026-12-01T10:00:00Z", "expires_at": "2026-12-02T10:00:00Z", "headers": {"tenant": "acme"}}]}`: done("printed", &task.Rerun{Tasks: []task.Request{{
			ID: parseID(t, some), Type: "mail-eu", Key: "k", OrderingKey: "o", Priority: ptr(uint8(0)), Payload: []byte("\x00\xff"),
			At: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC), Headers: map[string]string{"tenant": "acme"},
		}}}),
		`{"tasks": [{"type": "page", "after": ["` + some + `", "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6a"], "after_any": true}, {"type": "page", "after": []}]}`: done("printed", &task.Rerun{
			Tasks: []task.Request{{Type: "page", After: []task.ID{parseID(t, some), parseID(t, "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6a")}, AfterAny: true}, {Type: "page"}},
		}),
		`{"signals": [{"type": "order", "key": "4711", "ordering_key": "o", "name": "approved", "data": {"by": "a"}, "keep": true, "request_id": "` + some + `"}]}`: done("printed", &task.Rerun{
			Signals: []task.SignalRequest{{
				Type: "order", Key: "4711", OrderingKey: "o", Name: "approved", Data: []byte(`{"by": "a"}`), Keep: true, ID: parseID(t, some),
			}},
		}),

		`{"signals": [{"type": "order", "id": "` + some + `", "name": "a", "data_text": ""}]}`: done("printed", &task.Rerun{
			Signals: []task.SignalRequest{{Type: "order", To: parseID(t, some), Name: "a", Data: []byte{}}},
		}),

		`{"error": {"message": "no stock"}}`:                                                     failed(task.Verdict{Error: "no stock"}),
		`{"error": {"message": "no stock", "class": "stock", "permanent": true}}`:                failed(task.Verdict{Error: "no stock", Class: "stock", GiveUp: true}),
		`{"error": {"message": "slow", "retry_delay": "90s", "in_doubt": true}}`:                 failed(task.Verdict{Error: "slow", Delay: 90 * time.Second, InDoubt: true}),
		`{"error": {"message": "slow", "class": "", "permanent": false, "retry_delay": "1.5h"}}`: failed(task.Verdict{Error: "slow", Delay: 90 * time.Minute}),
	} {
		a, err := answer.Parse([]byte(document), now, rules)
		if err != nil {
			t.Errorf("%s is refused: %v", document, err)
			continue
		}
		if diff := cmp.Diff(want, task.VerdictOf(a.End([]byte("printed")))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", document, diff)
		}
	}
}

func TestADocumentIsRefusedWithTheReason(t *testing.T) {
	for document, want := range map[string]string{
		"":                          "it is blank",
		" \n":                       "it is blank",
		"\xff":                      "it is not UTF-8",
		`{"result": "` + "\xc3":     "it is not UTF-8",
		`{"again": {"delay": "5m"}`: "it is cut off after 25 bytes",
		`{"again" "5m"}`:            "it is not JSON: invalid character",
		`{} {"result": 1}`:          "more follows its end at byte 2",
		`{}x`:                       "more follows its end at byte 2",
		`[]`:                        "the document is a list, and not an object",
		`null`:                      "the document is null, and not an object",
		`"wait"`:                    "the document is a string, and not an object",
		`7`:                         "the document is a number, and not an object",

		`{"tasks": [{"type": "page", "after": ["4711"]}]}`: `tasks[0].after[0] is "4711": `,
		`{"tasks": [{"type": "page", "after_any": true}]}`: "tasks[0] has after_any, and after names no task",

		`{"again": {"delay": "1s"}, "children": {"p": [{"type": "page", "after": []}]}}`: "children.p[0].after: a child runs after no other task: add a task, or have the parent add the child later",

		`{"agian": {}}`:                                                 "agian is no field; did you mean again?",
		`{"Result": 1}`:                                                 "Result is no field; did you mean result?",
		`{"result": 1, "result": 2}`:                                    "result is given twice",
		`{"result": 1, "result_text": "a"}`:                             "result and result_text exclude each other",
		`{"result_text": 1}`:                                            "result_text is a number, and not a string",
		`{"result_base64": "AP8"}`:                                      `result_base64 is "AP8": it is not base64`,
		`{"` + strings.Repeat("x", 1000) + `": 1}`:                      strings.Repeat("x", 80) + "... is no field; use again, ",
		`{"wait": {"signal": ["paid"]}}`:                                "wait.signal is no field; did you mean signals?",
		`{"wait": {"signals": "paid"}}`:                                 "wait.signals is a string, and not a list",
		`{"wait": {"signals": ["paid", 3]}}`:                            "wait.signals[1] is a number, and not a string",
		`{"wait": {"signals": [""]}}`:                                   `wait.signals[0] is "": it must not be empty`,
		`{"wait": {}}`:                                                  "wait has neither signals nor children; to wait for a time, write again",
		`{"wait": {"signals": [], "timeout": "1h"}}`:                    "wait has neither signals nor children",
		`{"wait": {"signals": ["a"], "timeout": "1"}}`:                  `wait.timeout is "1": write a duration with its unit`,
		`{"wait": {"signals": ["a"], "timeout": "-1s"}}`:                `wait.timeout is "-1s": a duration is not negative`,
		`{"wait": {"signals": ["a"], "timeout": 60}}`:                   "wait.timeout is a number, and not a string",
		`{"wait": {"signals": ["a"], "until": "tomorrow"}}`:             `wait.until is "tomorrow": write a time as`,
		`{"wait": {"signals": ["a"], "until": "0001-01-01T00:00:00Z"}}`: "times lie between the years 1970 and 9999",
		`{"wait": {"signals": ["a"], "until": "2026-12-01T10:00:00Z", "timeout": "1h"}}`: "wait: a time and a duration exclude each other; write until or timeout",
		`{"wait": {"children": [{}]}}`:                                                  "wait.children[0] has no name",
		`{"wait": {"children": [{"name": "p", "count": -1}]}}`:                          "wait.children[0].count is -1, and not a whole number of 0 to 4294967295",
		`{"wait": {"children": [{"name": "p", "count": 1.5}]}}`:                         "wait.children[0].count is 1.5, and not",
		`{"wait": {"children": [{"name": "p", "count": "3"}]}}`:                         `wait.children[0].count is "3", and not`,
		`{"wait": {"children": [{"name": "p", "or_failed": null}]}}`:                    "wait.children[0].or_failed is null, and not true or false",
		`{"wait": {"children": {"name": "p"}}}`:                                         "wait.children is an object, and not a list",
		`{"again": {}}`:                                                                 "again has neither at nor delay",
		`{"again": "5m"}`:                                                               "again is a string, and not an object",
		`{"again": {"delay": "5m", "at": "2026-12-01T10:00:00Z"}}`:                      "again: a time and a duration exclude each other; write at or delay",
		`{"again": {"delay": "5m"}, "wait": {"signals": ["a"]}}`:                        "again and wait exclude each other",
		`{"error": {"message": "a"}, "again": {"delay": "5m"}}`:                         "error excludes all other fields",
		`{"error": {"message": "a"}, "result": 1}`:                                      "error excludes all other fields",
		`{"error": {"message": "a"}, "tasks": [{"type": "page"}]}`:                      "error excludes all other fields",
		`{"error": {"message": "a"}, "checkpoint": 1}`:                                  "error excludes all other fields",
		`{"error": {"message": ""}}`:                                                    `error.message is "": it must not be empty`,
		`{"error": {}}`:                                                                 "error has no message",
		`{"error": "a"}`:                                                                "error is a string, and not an object",
		`{"error": {"message": "a", "permanent": "yes"}}`:                               "error.permanent is a string, and not true or false",
		`{"error": {"message": "a", "permanent": true, "retry_delay": "1s"}}`:           "error is permanent, and has a retry_delay",
		`{"payload": 1}`:                                                                "payload needs again or wait",
		`{"checkpoint": 1}`:                                                             "checkpoint needs again or wait",
		`{"children": {}}`:                                                              "children need again or wait",
		`{"tasks": [{}]}`:                                                               "tasks[0] has no type",
		`{"tasks": {"type": "page"}}`:                                                   "tasks is an object, and not a list",
		`{"tasks": [{"type": "page"}, {"type": "pay"}]}`:                                `tasks[1] has the type "pay", and may_add of the handler does not list it`,
		`{"tasks": [{"type": "taskengine.relay"}]}`:                                     `tasks[0] has the type "taskengine.relay": types that begin with taskengine. belong to the engine`,
		`{"tasks": [{"type": "page", "text": "a"}]}`:                                    "tasks[0].text is no field; ",
		`{"tasks": [{"type": "page", "priority": 10}]}`:                                 "tasks[0].priority is 10, and not a whole number of 0 to 9",
		`{"tasks": [{"type": "page", "id": "4711"}]}`:                                   `tasks[0].id is "4711": `,
		`{"tasks": [{"type": "page", "headers": {"a": 1}}]}`:                            "tasks[0].headers.a is a number, and not a string",
		`{"tasks": [{"type": "page", "headers": {"a": "", "a": ""}}]}`:                  "tasks[0].headers.a is given twice",
		`{"tasks": [{"type": "page", "at": "2026-12-01T10:00:00Z", "in": "0s"}]}`:       "tasks[0]: a time and a duration exclude each other; write at or in",
		`{"children": {"p": [{"type": "page", "key": "k"}]}, "again": {"delay": "1s"}}`: "children.p[0].key: a child has none of its own",
		`{"children": {"p": [{"type": "pay"}]}, "again": {"delay": "1s"}}`:              `children.p[0] has the type "pay", and may_add`,
		`{"children": {"p": [], "p": []}, "again": {"delay": "1s"}}`:                    "children.p is given twice",
		`{"children": [{"type": "page"}], "again": {"delay": "1s"}}`:                    "children is a list, and not an object",
		`{"children": {"p": {"type": "page"}}, "again": {"delay": "1s"}}`:               "children.p is an object, and not a list",
		`{"signals": [{"type": "order", "key": "k"}]}`:                                  "signals[0] has no name",
		`{"signals": [{"name": "a"}]}`:                                                  "signals[0] names no task; write id, or type and key",
		`{"signals": [{"name": "a", "type": "order"}]}`:                                 "signals[0]: type and key go together",
		`{"documents": [{"data": 1}]}`:                                                  `documents[0] has no key`,
		`{"documents": [{"key": "stock/a"}]}`:                                           `documents[0] has neither data nor delete`,
		`{"documents": [{"key": "stock/a", "data": 1, "delete": true}]}`:                `documents[0] is to be deleted, and has data or a time`,
		`{"documents": [{"key": "price/a", "data": 1}]}`:                                `documents[0] has the key "price/a", and may_write of the handler does not list it`,
		`{"documents": [{"key": "stock/a", "data": 1, "if_version": -1}]}`:              `documents[0].if_version is -1, and not a version`,
		`{"documents": [{"key": "stock/a", "data": 1, "expires_in": "1h", "expires_at": "2030-01-01T00:00:00Z"}]}`: `documents[0]: a time and a duration exclude each other; write expires_at or expires_in`,
		`{"error": {"message": "no"}, "documents": [{"key": "stock/a", "data": 1}]}`:                               `error excludes all other fields`,
		`{"signals": [{"name": "a", "type": "pay", "key": "k"}]}`:                                                  `signals[0] is for a task of type "pay", and may_signal of the handler does not list it`,
		`{"signals": [{"name": "a", "id": "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"}]}`:                               `signals[0] has an id and no type, and may_signal of the handler does not list "*"; write the type, too`,
		`{"signals": [{"name": "a", "id": "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69", "type": "pay"}]}`:                `signals[0] is for a task of type "pay", and may_signal of the handler does not list it`,
		`{"signals": [{"name": "a", "type": "taskengine.relay", "key": "k"}]}`:                                     `signals[0] is for a task of type "taskengine.relay": types that begin`,
		`{"signals": [{"name": "a", "key": "k"}]}`:                                                                 "signals[0]: type and key go together",
		`{"signals": [{"name": "a", "id": "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69", "key": "k", "type": "order"}]}`:  "signals[0] has an id and a key",
		`{"signals": [{"name": "a", "id": "00000000-0000-0000-0000-000000000000"}]}`:                               "no task has the id zero",
	} {
		if a, err := answer.Parse([]byte(document), now, rules); err == nil {
			t.Errorf("%s is accepted: %+v", document, a)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused with %q, want %q", document, err, want)
		}
	}
}

func TestNothingIsAddedOrSignalledWithoutARule(t *testing.T) {
	for _, document := range []string{
		`{"tasks": [{"type": "page"}]}`, `{"children": {"p": [{"type": "page"}]}, "again": {"delay": "1s"}}`,
		`{"signals": [{"name": "a", "type": "order", "key": "k"}]}`, `{"signals": [{"name": "a", "id": "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"}]}`,
	} {
		if _, err := answer.Parse([]byte(document), now, answer.Rules{}); err == nil || !strings.Contains(err.Error(), "of the handler does not list") {
			t.Errorf("%s gives %v", document, err)
		}
		if _, err := answer.Parse([]byte(document), now, answer.Rules{MayAdd: []string{"*"}, MaySignal: []string{"*"}}); err != nil {
			t.Errorf("with rules for all types, %s gives %v", document, err)
		}
	}
	if _, err := answer.Parse([]byte(`{"tasks": [{"type": "taskengine.x"}]}`), now, answer.Rules{MayAdd: []string{"*", "taskengine.*"}}); err == nil {
		t.Error("a rule allows types of the engine")
	}
}

func TestTimesOfTasksAreByTheClockOfTheNodes(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	started := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got := answer.NowIn(&task.Task{StartedAt: started}, began)
	if behind := got.Nodes.Sub(started); behind != got.Here.Sub(began) || behind < time.Minute {
		t.Errorf("an attempt that began a minute ago is %v old", behind)
	}
	if got := answer.NowIn(&task.Task{}, began); got.Nodes != got.Here {
		t.Errorf("without a start, the nodes have %v, and this machine %v", got.Nodes, got.Here)
	}
}

func FuzzADocumentIsReadOrRefused(f *testing.F) {
	for _, document := range []string{
		`{"result": {"a": 1}, "again": {"delay": "5m"}, "payload_text": "a", "checkpoint_base64": "AP8="}`,
		`{"wait": {"signals": ["a"], "until": "2026-12-01T10:00:00Z"}, "children": {"p": [{"type": "page", "headers": {"a": "b"}}]}}`,
		`{"wait": {"children": [{"name": "p", "count": 1, "or_failed": true}], "timeout": "1h"}}`,
		`{"error": {"message": "a", "class": "b", "retry_delay": "1s", "in_doubt": true}}`,
		`{"tasks": [{"type": "page", "priority": 9, "in": "1s"}], "signals": [{"type": "order", "key": "k", "name": "n", "data": [null]}]}`,
	} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		a, err := answer.Parse(document, now, rules)
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 1000 {
				t.Errorf("the reason has %d bytes", len(err.Error()))
			}
			return
		}
		if !json.Valid(document) {
			t.Error("it is accepted, and is not JSON")
		}
		v := task.VerdictOf(a.End(nil))
		switch {
		case v.Outcome == task.Errored:
			if v.Error == "" || v.Rerun != nil || v.GiveUp && v.Delay >= 0 {
				t.Errorf("it fails as %+v", v)
			}
		case v.Outcome != task.Completed:
			t.Errorf("it ends as %+v", v)
		case v.Await != nil && (len(v.Await) == 0 || (v.Children != nil) != (v.Await[0] == task.AwaitsChildren)):
			t.Errorf("it waits as %+v", v)
		case v.Rerun == nil:
		case !v.RunsAgain() && (v.Rerun.Payload != nil || v.Rerun.Checkpoint != nil || v.Rerun.Children != nil):
			t.Errorf("it is done as %+v", v.Rerun)
		default:
			reqs := v.Rerun.Tasks
			for _, c := range v.Rerun.Children {
				reqs = append(reqs, c.Requests...)
			}
			for _, r := range reqs {
				if r.Type != "page" && !strings.HasPrefix(r.Type, "mail-") {
					t.Errorf("it adds a task of type %q", r.Type)
				}
			}
			for _, s := range v.Rerun.Signals {
				if s.Type != "order" || (s.Key == "") == s.To.IsZero() || s.Name == "" {
					t.Errorf("it sends %+v", s)
				}
			}
		}
	})
}

func TestADocumentThatTasksShareIsWritten(t *testing.T) {
	a, err := answer.Parse([]byte(`{"documents": [{"key": "stock/a", "data": {"n": 1}, "if_version": 1764500000000000}, {"key": "stock/b", "delete": true}, {"key": "stock/c", "data_text": "x", "if_version": 0, "expires_in": "1h"}]}`), now, rules)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.End([]byte("out"))
	v := task.VerdictOf(result, err)
	if v.Outcome != task.Completed || v.RunsAgain() || string(v.Result) != "out" {
		t.Fatalf("the verdict is %+v", v)
	}
	want := []task.DocumentWrite{
		{Key: "stock/a", Data: []byte(`{"n": 1}`), Replaces: new(uint64(1764500000000000))},
		{Key: "stock/b", Delete: true},
		{Key: "stock/c", Data: []byte("x"), Replaces: new(uint64(0)), ExpiresAt: now.Nodes.Add(time.Hour)},
	}
	if diff := cmp.Diff(want, v.Rerun.Documents); diff != "" {
		t.Error(diff)
	}
}
