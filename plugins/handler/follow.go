package handler

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// follow adds to the answer of an attempt that has done its work the tasks that are added, the signals that are sent and the documents that
// are written with it. It returns the error of the attempt if that cannot be. x may be nil.
func follow(f *wire.Finish, v *task.Verdict, x *extras, maxResult uint64) error {
	if x != nil {
		if x.err != nil {
			return x.err
		}
		f.Children = x.children
	}
	if r := v.Rerun; r != nil {
		if err := addTo(f, r); err != nil {
			return task.Permanent(fmt.Errorf("the handler asked to add tasks, to send signals or to write documents, which cannot be: %w", err))
		}
	}
	for _, w := range v.Children {
		if err := validText(w.Name); err != nil {
			return task.Permanent(fmt.Errorf("the handler asked to wait for children, which cannot be: %w", err))
		}
	}
	if size := len(v.Result) + sizeOf(f); maxResult > 0 && uint64(size) > maxResult {
		return tooLarge("the result, the tasks that are added and the signals have", size, maxResult)
	}
	return nil
}

// sizeOf returns the approximate size of the tasks and signals of an answer in a frame.
func sizeOf(f *wire.Finish) (size int) {
	for _, c := range f.GetChildren() {
		size += proto.Size(c)
	}
	for _, s := range f.GetSignals() {
		size += proto.Size(s)
	}
	return size
}

// addTo adds the tasks, the children, the signals and the documents of r to an answer.
func addTo(f *wire.Finish, r *task.Rerun) error {
	if n := len(r.Tasks); n > 0 {
		f.Children = slices.Grow(slices.Clip(f.Children), n)
	}
	for i := range r.Tasks {
		if err := addChild(f, "", &r.Tasks[i]); err != nil {
			return err
		}
	}
	for _, set := range r.Children {
		if set.Name == "" && len(set.Requests) > 0 {
			return errors.New("children that a task learns of have a name")
		}
		for i := range set.Requests {
			if err := addChild(f, set.Name, &set.Requests[i]); err != nil {
				return err
			}
		}
	}
	for i := range r.Signals {
		s := &r.Signals[i]
		if err := validText(s.Type, s.Key, s.OrderingKey, s.Name); err != nil {
			return err
		}
		f.Signals = append(f.Signals, &wire.Signal{
			TaskId: idOf(s.To), Type: s.Type, Key: s.Key, OrderingKey: s.OrderingKey, Id: idOf(s.ID), Name: s.Name, Data: s.Data, Keep: s.Keep,
		})
	}
	return write(f, r.Documents)
}

// addChild adds a task to an answer, as a child of the name set unless that is "".
func addChild(f *wire.Finish, set string, r *task.Request) error {
	if err := validText(set, r.Type, r.Key, r.OrderingKey); err != nil {
		return err
	}
	for k, v := range r.Headers {
		if err := validText(k, v); err != nil {
			return err
		}
	}
	if r.Children != nil {
		return task.WithClass("unsupported", errors.New("a task with children of its own can be submitted, and not added with the end of an attempt of a handler program"))
	}
	c := &wire.Child{
		Set: set, TaskId: idOf(r.ID), Type: r.Type, Key: r.Key, OrderingKey: r.OrderingKey, Payload: r.Payload, Headers: r.Headers,
		RunAt: microsOf(r.At), ExpiresAt: microsOf(r.ExpiresAt), After: idsOf(r.After), AfterAny: r.AfterAny,
	}
	if r.Priority != nil {
		c.Priority = proto.Uint32(uint32(*r.Priority))
	}
	f.Children = append(f.Children, c)
	return nil
}

// validText returns an error if one of these is no valid UTF-8, which would break the stream.
func validText(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("the text %.100q is not valid UTF-8", s)
		}
	}
	return nil
}

// idOf returns the bytes of an optional id.
func idOf(id task.ID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// idsOf returns the bytes of ids.
func idsOf(ids []task.ID) (all [][]byte) {
	for _, id := range ids {
		all = append(all, id[:])
	}
	return all
}

// microsOf returns an optional time in microseconds.
func microsOf(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}
