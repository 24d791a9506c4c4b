//go:build !race

package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

func TestMistakesInDefinitionsAreNamedWithTheirPlace(t *testing.T) {
	many := make([]string, workflow.MaxSteps+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"s%d": {"type": "a"}`, i)
	}
	for _, c := range []struct{ definition, want string }{
		{`{}`, "steps are missing"},
		{`[]`, "cannot unmarshal array"},
		{`{"steps": {"a": {"type": "a"}}} {}`, "something follows the value"},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "b"}, "a": {"type": "c"}}}`, "steps.a is given twice"},
		{`{"steps": {"a": {"type": "a", "payload": [1, {"x": 1, "x": 2}]}}}`, "steps.a.payload.1.x is given twice"},
		{`{"steps": {"a": {"type": "a", "afer": []}}}`, `unknown field "afer"`},
		{`{"steps": {"a": null}}`, "steps.a: it is empty"},
		{`{"steps": {"a": {}}}`, "steps.a: a step has a type, or a wait"},
		{`{"steps": {"a b": {"type": "a"}}}`, `"a b" is not the name of a step`},
		{`{"steps": {"": {"type": "a"}}}`, `"" is not the name of a step`},
		{`{"steps": {"a/compensate": {"type": "a"}}}`, `is not the name of a step`},
		{`{"steps": {` + strings.Join(many, ", ") + `}}`, "there are 501 steps, of 500 allowed"},
		{`{"steps": {"charge": {"type": "a"}, "ship": {"type": "b", "after": ["chrge"]}}}`, `steps.ship.after: there is no step "chrge", did you mean charge?`},
		{`{"steps": {"a": {"type": "a", "after": ["a"]}}}`, "steps.a.after: the step comes after itself"},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "a", "after": ["a", "a"]}}}`, "steps.b.after: a is given twice"},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "a", "after": ["a", "d"]}, "c": {"type": "a", "after": ["b"]}, "d": {"type": "a", "after": ["c"]}}}`, "steps.b.after: the steps come after each other in a cycle: b after d after c after b"},
		{`{"steps": {"a": {"type": "taskengine.schedule"}}}`, `steps.a: type "taskengine.schedule" is reserved`},
		{`{"steps": {"a": {"type": "a", "compensate": {}}}}`, "steps.a: compensate: type is missing"},
		{`{"steps": {"a": {"type": "a", "on_failure": "stop"}}}`, `steps.a: on_failure is "stop", and fail, continue or compensate`},
		{`{"steps": {"a": {"type": "a", "priority": 10}}}`, "steps.a: priority is 10, of 0 (sooner) to 9 (later)"},
		{`{"steps": {"a": {"type": "a", "ordering_key": ""}}}`, "steps.a.ordering_key: the value is empty"},
		{`{"steps": {"a": {"type": "a", "ordering_key": null}}}`, "steps.a.ordering_key: the value is null, and text or a number"},
		{`{"steps": {"a": {"type": "a", "ordering_key": ["k"]}}}`, "steps.a.ordering_key: the value is a list, and text or a number"},
		{`{"steps": {"a": {"type": "a", "ordering_key": {"k": 1}}}}`, "steps.a.ordering_key: the value is an object, and text or a number"},
		{`{"steps": {"a": {"type": "a", "ordering_key": "` + strings.Repeat("k", 501) + `"}}}`, "steps.a.ordering_key: the value has 501 bytes, of 500 allowed"},
		{`{"steps": {"a": {"type": "a", "ordering_key": {"$item": ""}}}}`, "steps.a.ordering_key: $item is for the payloads and ordering keys of a step with for_each or count"},
		{`{"steps": {"a": {"type": "a", "ordering_key": {"$result": "a"}}}}`, "steps.a.ordering_key: $result: step a has not ended by then; name it in after"},
		{`{"steps": {"a": {"type": "a", "compensate": {"type": "b", "ordering_key": ""}}}}`, "steps.a.compensate.ordering_key: the value is empty"},
		{`{"steps": {"a": {"type": "a", "compensate": {"type": "b", "ordering_key": {"$result": "c"}}}}}`, `steps.a.compensate.ordering_key: $result: there is no step "c"`},
		{`{"steps": {"a": {"wait": {"for": "1h"}, "ordering_key": "k"}}}`, "steps.a: a step with a wait has no task"},
		{`{"steps": {"a": {"type": "a", "count": 10001}}}`, "steps.a: count is 10001, of 1 to 10000"},
		{`{"steps": {"a": {"type": "a", "count": 2, "for_each": [1]}}}`, "steps.a: count and for_each exclude each other"},
		{`{"steps": {"a": {"type": "a", "count": 2, "need": 3}}}`, "steps.a: need is 3, and there are not so many tasks"},
		{`{"steps": {"a": {"type": "a", "count": 2, "need": "most"}}}`, `need is "most", and all, any or a number from 1 on`},
		{`{"steps": {"a": {"type": "a", "need": "any"}}}`, "steps.a: need is for the tasks of count or for_each"},
		{`{"steps": {"a": {"type": "a", "wait": {"signal": "paid"}}}}`, "steps.a: a step with a wait has no task"},
		{`{"steps": {"a": {"wait": {}}}}`, "steps.a: wait: it has a signal, or a time as for"},
		{`{"steps": {"a": {"wait": {"for": "1h", "timeout": "1h"}}}}`, "steps.a: wait: timeout is for a signal"},
		{`{"steps": {"a": {"wait": {"signal": "paid", "timeout": "soon"}}}}`, `"soon" is no duration`},
		{`{"steps": {"a": {"wait": {"signal": "taskengine.children"}}}}`, `"taskengine.children" is not the name of a signal`},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "b", "payload": {"x": [{"$result": "a"}]}}}}`, "steps.b.payload.x.0: $result: step a has not ended by then; name it in after"},
		{`{"steps": {"b": {"type": "b", "payload": {"$result": "a.id"}}}}`, `steps.b.payload: $result: there is no step "a"`},
		{`{"steps": {"b": {"type": "b", "payload": {"$reslt": "a"}}}}`, `steps.b.payload: there is no reference "$reslt"`},
		{`{"steps": {"b": {"type": "b", "payload": {"$input": 1}}}}`, "steps.b.payload: $input has text"},
		{`{"steps": {"b": {"type": "b", "payload": {"$input": "", "x": 1}}}}`, "steps.b.payload: $input has other names beside it"},
		{`{"steps": {"b": {"type": "b", "payload": {"$item": ""}}}}`, "steps.b.payload: $item is for the payloads and ordering keys of a step with for_each or count"},
		{`{"steps": {"b": {"type": "b", "for_each": {"$item": ""}}}}`, "steps.b.for_each: $item is for the payloads and ordering keys"},
		{`{"steps": {"a": {"wait": {"for": "1d"}}, "b": {"type": "b", "after": ["a"], "payload": {"$task": "a"}}}}`, "steps.b.payload: $task: step a is a wait and has no task"},
		{`{"steps": {"b": {"type": "b"}}, "output": {"$task": "b.x"}}`, `output: $task has the name of a step and no more, and is "b.x"`},
		{`{"steps": {"b": {"type": "b"}}, "output": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "has more than 100 values within each other"},
		{`{"steps": {"a": {"type": "a", "skip_with": "all"}}}`, "steps.a: skip_with is for a step with after"},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "b", "after": ["a"], "skip_with": "every"}}}`, `steps.b: skip_with is "every", and any, all or none`},
		{`{"steps": {"fraud": {"type": "a"}, "b": {"type": "b", "after": ["fraud"], "if": "$input.x and $result.frud > 1"}}}`, `steps.b.if: column 14: $result: there is no step "frud", did you mean fraud?`},
		{`{"steps": {"a": {"type": "a"}, "b": {"type": "b", "if": "$result.a == 1"}}}`, "steps.b.if: column 1: $result: step a has not ended by then; name it in after"},
		{`{"steps": {"b": {"type": "b"}}`, "it is not JSON"},
		{"", "it is not JSON"},
	} {
		if _, err := workflow.Parse([]byte(c.definition)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s\n gives %v\nwant %s", c.definition, err, c.want)
		}
	}
}

func TestTheInputOfAWorkflowIsJSON(t *testing.T) {
	d := &workflow.Definition{Steps: map[string]*workflow.Step{"a": {Type: "a"}}}
	for input, want := range map[string]string{`{"a": 1, "a": 2}`: "the input: a is given twice", "x": "the input: it is not JSON"} {
		if _, err := workflow.Request(d, []byte(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the input %s gives %v, want %s", input, err, want)
		}
	}
	r, err := workflow.Request(d, nil)
	if err != nil || r.Type != "taskengine.workflow" || task.IsReservedType(r.Type) {
		t.Errorf("no input gives %+v, %v", r, err)
	}
}

func TestAWorkflowKeepsWhatItsDefinitionSays(t *testing.T) {
	const text = `{"name":"order","steps":{"a":{"type":"a","ordering_key":{"$item":"account"},"for_each":{"$input":"list"},"need":3,"compensate":{"type":"b","ordering_key":"k"}},"b":{"after":["a"],"wait":{"signal":"paid","timeout":"48h0m0s"}}},"on_failure":"compensate","output":{"$result":"a"}}`
	d, err := workflow.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := workflow.Request(d, []byte(`{"list": [1.10]}`))
	if want := `{"format":1,"definition":` + text + `,"input":{"list":[1.10]}}`; err != nil || string(r.Payload) != want {
		t.Errorf("the payload is\n%s, %v, want\n%s", r.Payload, err, want)
	}
}

// FuzzParse checks that what can be read can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"steps": {"a": {"type": "a", "count": 2, "need": "any", "payload": {"$index": ""}, "ordering_key": {"$index": ""}}, "b": {"after": ["a"], "wait": {"for": "2d"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := workflow.Parse(data)
		if err != nil {
			return
		}
		r, err := workflow.Request(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workflow.ParseSpec(r.Payload); err != nil {
			t.Fatalf("%s: %v", r.Payload, err)
		}
	})
}
