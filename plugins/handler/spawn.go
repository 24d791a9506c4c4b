package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Child is a task that another task adds by [Spawn]. It is on its own then: to learn of the ends of tasks, a handler returns
// [task.WithChildren]. Only Type is required.
type Child struct {
	Type        string
	Payload     []byte
	Key         string            // unique among the type's tasks while they are kept; "" if none
	OrderingKey string            // tasks that share it run one at a time, in the order of becoming ready; "" if none
	Headers     map[string]string // stored unchanged, such as a trace context
	RunAt       time.Time         // when it is due; zero is now
	Priority    *uint8            // task.HighestPriority..task.LowestPriority; nil for the type's

	// After are up to [task.MaxAfter] tasks that exist: the child runs when all of them are done, and is cancelled if one of them fails or is
	// cancelled. With AfterAny it runs when all of them have ended, however. A task that the same attempt adds does not exist yet. If one
	// of them is not in the store, the attempt fails. There is no RunAt with it.
	After    []task.ID
	AfterAny bool
}

// Spawn adds a task if and only if the task that ctx belongs to succeeds, that is, if its handler returns no error or
// that of [task.Again]. The child is sent together with the result, and dropped if the handler fails or snoozes.
//
// Spawn returns an error if the child is not valid, if the handler has returned, or if the host does not take children, or
// none with After; the last two are permanent errors of class "unsupported". If the handler ignores the error, its task fails with it, so that
// no child is lost. If ctx belongs to no task of a [Program], Spawn only returns an error.
func Spawn(ctx context.Context, c Child) error {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return errors.New("children need the context of a task that a handler program runs; for one of a batch see ContextOf")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errors.New("children come too late: the handler has returned")
	}
	flaw := c.flaw()
	switch {
	case !r.terms.features["children"]:
		flaw = unsupported("the host does not take children, which the handler has asked for")
	case len(c.After) > 0 && !r.terms.features["after"]:
		flaw = unsupported(afterUnserved)
	}
	if r.extras == nil {
		r.extras = new(extras)
	}
	if flaw == nil {
		r.extras.children = append(r.extras.children, c.message())
	} else if r.extras.err == nil {
		r.extras.err = flaw
	}
	return flaw
}

// message returns a copy of c that goes on the wire.
func (c *Child) message() *wire.Child {
	m := &wire.Child{
		Type: c.Type, Key: c.Key, OrderingKey: c.OrderingKey, Payload: bytes.Clone(c.Payload), Headers: maps.Clone(c.Headers),
		After: idsOf(c.After), AfterAny: c.AfterAny,
	}
	if !c.RunAt.IsZero() {
		m.RunAt = c.RunAt.UnixMicro()
	}
	if c.Priority != nil {
		m.Priority = proto.Uint32(uint32(*c.Priority))
	}
	return m
}

// flaw returns the first mistake in c. A string of invalid UTF-8 would break the stream.
func (c *Child) flaw() error {
	if c.Type == "" {
		return errors.New("a child needs a type")
	}
	if c.Priority != nil && *c.Priority > task.LowestPriority {
		return fmt.Errorf("the priority of a child is %d, of 0 (sooner) to 9 (later)", *c.Priority)
	}
	after := task.Request{At: c.RunAt, After: c.After, AfterAny: c.AfterAny}
	if err := after.CheckAfter(); err != nil {
		return fmt.Errorf("a child cannot be as it is: %w", err)
	}
	texts := []string{c.Type, c.Key, c.OrderingKey}
	for k, v := range c.Headers {
		texts = append(texts, k, v)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("a child has the text %.100q, which is not valid UTF-8", s)
		}
	}
	return nil
}

// extras are sent with the answer of a run that succeeds.
type extras struct {
	children []*wire.Child
	err      error // the first error of Spawn
}

// runKey is the key of a context's run.
type runKey struct{}
