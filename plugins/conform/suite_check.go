package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// checkChecks returns the checks of questions about tasks that would be refused.
func checkChecks() []check {
	const asks = "check: asks which of the children of the payload would be refused, and returns the refusals"
	return []check{
		alone(full, "check", "a task asks which children would be refused", asks, func(_ *exam, s *session) error { return s.asksAndLearns() }),
		alone(full, "check", "a task that does not learn which children would be refused fails, unless it goes on without", asks, func(_ *exam, s *session) error { return s.asksInVain("check", checkPayload, notChecked) }),
		in(wide, "check", "without the feature the question fails the task for good", "the error is permanent, of class unsupported", func(s *session) error {
			return s.unsupported("check", checkPayload)
		}),
		onANode("check", "a node says which children would be refused, and adds none", asks, seeNodeCheck),
	}
}

const checkPayload = `{"name": "pägé", "children": [{"type": "leaf", "payload": "a"}, {"type": "mail"}, {"type": "leaf"}]}`

// refusal is an element of the result of a task of the type check.
type refusal struct {
	Index   int    `json:"index"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	ID      string `json:"id"`
}

func refusalsIn(f *wire.Finish) (all []refusal, err error) {
	result, err := resultOf(f)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(result, &all); err != nil {
		return nil, fmt.Errorf("the result is %.500q: %w", result, err)
	}
	return all, nil
}

// asksAndLearns answers a check with each reason.
func (s *session) asksAndLearns() error {
	run, number, err := s.asks("check", checkPayload, func(run, number uint64) question {
		return &wire.Check{RunId: run, Number: number, Set: "pägé", Children: []*wire.Child{
			{Type: leafType, Payload: []byte("a")}, {Type: "mail"}, {Type: leafType},
		}}
	})
	if err != nil {
		return err
	}
	id := task.ID{7, 0xfe, 15: 1}
	reasons := []string{"invalid", "too_large", "too_many", "forbidden", "backlog", "key_taken", "unknown_type"}
	answer := &wire.Checked{RunId: run.GetRunId(), Number: number}
	var learnt []refusal
	for i, name := range reasons {
		index := min(i, 2)
		r := &wire.Refusal{Index: uint32(index), Reason: wire.Refusal_Reason(i + 1), Message: "nö " + name}
		said := refusal{index, name, r.Message, ""}
		if name == "key_taken" {
			r.TaskId, said.ID = id[:], id.String()
		}
		answer.Refusals, learnt = append(answer.Refusals, r), append(learnt, said)
	}
	if err := s.send(&wire.ToHandler{Checked: []*wire.Checked{answer}}); err != nil {
		return err
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	got, err := refusalsIn(f)
	if err != nil {
		return err
	}
	if !slices.Equal(got, learnt) {
		return fmt.Errorf("it learnt %+v, wanted are %+v", got, learnt)
	}
	return nil
}

func notChecked(run, number uint64, why string) *wire.ToHandler {
	return &wire.ToHandler{Checked: []*wire.Checked{{RunId: run, Number: number, Error: why}}}
}

// fullType is a type of a node that takes one task, and has no handler.
const fullType = "full"

// seeNodeCheck has tasks of a node ask.
func seeNodeCheck(ctx context.Context, n realNode) error {
	receipts, err := n.Submit(ctx, engine.Request{Type: fullType, Key: "käy"})
	if err != nil {
		return err
	}
	for payload, want := range map[string][]refusal{
		`{"name": "page", "children": [{"type": "leaf", "payload": "a"}, {"type": "taskengine.relay"}, {"type": "full"}, {"type": "nobody"}, {"type": "leaf"}]}`: {
			{1, "invalid", "is reserved", ""}, {2, "backlog", "max_backlog", ""}, {3, "unknown_type", "no live node has a handler for type nobody", ""},
		},
		`{"name": "page", "children": [{"type": "leaf"}]}`:             nil,
		`{"name": "", "children": [{"type": "full", "key": "käy"}]}`:   {{0, "key_taken", "", receipts[0].ID.String()}},
		`{"name": "", "children": [{"type": "leaf", "key": "other"}]}`: nil,
	} {
		result, err := done(ctx, n, engine.Request{Type: "check", Payload: []byte(payload)})
		if err != nil {
			return err
		}
		got, err := refusalsIn(&wire.Finish{Outcome: &wire.Finish_Result{Result: result}})
		if err != nil {
			return err
		}
		said := func(a, b refusal) bool {
			return a.Index == b.Index && a.Reason == b.Reason && strings.Contains(a.Message, b.Message) && a.ID == b.ID
		}
		if !slices.EqualFunc(got, want, said) {
			return fmt.Errorf("the answer to %s is %.700q, wanted are %+v", payload, result, want)
		}
	}
	added, err := n.Count(ctx, storage.Filter{Types: []string{leafType}})
	if err != nil {
		return err
	}
	if len(added) > 0 {
		return fmt.Errorf("the questions have added tasks: %v", added)
	}
	return nil
}
