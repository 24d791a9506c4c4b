package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var _ task.Checker = (*run)(nil)

// asking is a check that the host has not answered.
type asking struct {
	question *wire.Check
	answer   chan<- checked // buffered: the one answer never blocks
}

// checked is the answer to a check.
type checked struct {
	refused []*wire.Refusal
	err     error
}

// Check implements [task.Checker]. A worker without a connection waits for the next one.
func (r *run) Check(name string, requests []task.Request) ([]task.Refusal, error) {
	if !r.terms.features["check"] {
		return nil, unsupported("the handler asked which tasks would be refused, which the host does not say")
	}
	if runAfter(requests) && !r.terms.features["after"] {
		return nil, unsupported(afterUnserved)
	}
	question, at, refused := r.question(name, requests)
	if len(question.Children) == 0 {
		return refused, nil
	}
	answer, sent := r.ask(question)
	if !sent {
		return nil, errors.New("the check comes too late: the attempt is over")
	}
	var got checked
	select {
	case got = <-answer:
	case <-r.Done():
		got.err = context.Cause(r)
	}
	if got.err != nil {
		return nil, fmt.Errorf("it is not known which tasks would be refused: %w", got.err)
	}
	for _, m := range got.refused {
		if int(m.GetIndex()) < len(at) {
			f := task.Refusal{Index: at[m.GetIndex()], Reason: task.RefusalReason(m.GetReason()), Text: m.GetMessage()}
			copy(f.ID[:], m.GetTaskId())
			refused = append(refused, f)
		}
	}
	slices.SortFunc(refused, func(a, b task.Refusal) int { return a.Index - b.Index })
	return refused, nil
}

// question returns a check of requests, for each of its children the index of the request, and the refusals of the requests that
// cannot be sent.
func (r *run) question(name string, requests []task.Request) (question *wire.Check, at []int, refused []task.Refusal) {
	question = &wire.Check{RunId: r.id, Set: text(name)}
	size := 0
	for i := range requests {
		one := new(wire.Finish)
		if err := addChild(one, "", &requests[i]); err != nil {
			refused = append(refused, task.Refusal{Index: i, Reason: task.RefusedInvalid, Text: err.Error()})
			continue
		}
		size += proto.Size(one.Children[0])
		if most := r.terms.maxResult; most > 0 && uint64(size) > most {
			refused = append(refused, task.Refusal{Index: i, Reason: task.RefusedTooLarge, Text: tooLarge("the tasks that are added have", size, most).Error()})
			continue
		}
		question.Children, at = append(question.Children, one.Children[0]), append(at, i)
	}
	return question, at, refused
}

// ask sends a check, and returns the channel for the answer. It reports false if the run is answered or cut off.
func (r *run) ask(question *wire.Check) (<-chan checked, bool) {
	answer := make(chan checked, 1)
	sent := r.report("check", func(q *reports) {
		r.checks++
		question.Number = r.checks
		q.checks = append(q.checks, question)
		r.asking = append(r.asking, asking{question, answer})
	})
	return answer, sent
}

// checked handles the answer of the host to a check.
func (s *session) checked(k *wire.Checked) {
	got := checked{refused: k.GetRefusals()}
	if k.GetError() != "" {
		got.err = errors.New(k.GetError())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[k.GetRunId()]
	if r == nil {
		return
	}
	if i := slices.IndexFunc(r.asking, func(a asking) bool { return a.question.Number == k.GetNumber() }); i >= 0 {
		r.asking[i].answer <- got
		r.asking = slices.Delete(r.asking, i, i+1)
	}
}

// giveUp ends the waits for answers to checks and reads. The mutex of the session must be held.
func (r *run) giveUp(why error) {
	for _, a := range r.asking {
		a.answer <- checked{err: why}
	}
	for _, a := range r.reading {
		a.answer <- documentRead{err: why}
	}
	r.asking, r.reading = nil, nil
}
