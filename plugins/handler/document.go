package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var _ task.DocumentReader = (*run)(nil)

// reading is a read that the host has not answered.
type reading struct {
	question *wire.ReadDocument
	answer   chan<- documentRead // buffered: the one answer never blocks
}

// documentRead is the answer to a read.
type documentRead struct {
	document *wire.DocumentRead
	err      error
}

// ReadDocument implements [task.DocumentReader]. A worker without a connection waits for the next one.
func (r *run) ReadDocument(key string) (task.Document, error) {
	if !r.terms.features["documents"] {
		return task.Document{}, unsupported("the handler asked for a document, which the host does not serve")
	}
	if err := validText(key); err != nil {
		return task.Document{}, err
	}
	answer := make(chan documentRead, 1)
	sent := r.report("documents", func(q *reports) {
		r.reads++
		question := &wire.ReadDocument{RunId: r.id, Number: r.reads, Key: key}
		q.reads = append(q.reads, question)
		r.reading = append(r.reading, reading{question, answer})
	})
	if !sent {
		return task.Document{}, errors.New("the read of a document comes too late: the attempt is over")
	}
	var got documentRead
	select {
	case got = <-answer:
	case <-r.Done():
		got.err = context.Cause(r)
	}
	if got.err != nil {
		return task.Document{}, fmt.Errorf("the document %q was not read: %w", key, got.err)
	}
	d := got.document
	return task.Document{
		Key: key, Data: d.GetData(), Version: d.GetVersion(), CreatedAt: timeOf(d.GetCreatedAt()), UpdatedAt: timeOf(d.GetUpdatedAt()), ExpiresAt: timeOf(d.GetExpiresAt()),
	}, nil
}

// timeOf returns an optional time in microseconds.
func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// write adds writes of documents to an answer.
func write(f *wire.Finish, writes []task.DocumentWrite) error {
	if len(writes) > task.MaxDocuments {
		return fmt.Errorf("there are %d documents, of %d allowed", len(writes), task.MaxDocuments)
	}
	for i := range writes {
		w := &writes[i]
		if err := validText(w.Key); err != nil {
			return err
		}
		if len(w.Data) > task.MaxDocument {
			return fmt.Errorf("the document %.80q has %d bytes, of %d allowed", w.Key, len(w.Data), task.MaxDocument)
		}
		f.Documents = append(f.Documents, &wire.WriteDocument{Key: w.Key, Data: w.Data, Delete: w.Delete, Replaces: w.Replaces, ExpiresAt: microsOf(w.ExpiresAt)})
	}
	return nil
}

// sizeOfDocuments returns the approximate size of the documents of an answer in a frame.
func sizeOfDocuments(f *wire.Finish) (size int) {
	for _, d := range f.GetDocuments() {
		size += 32 + len(d.GetKey()) + len(d.GetData())
	}
	return size
}

// read handles the answer of the host to a read.
func (s *session) read(d *wire.DocumentRead) {
	got := documentRead{document: d}
	if d.GetError() != "" {
		got.err = errors.New(d.GetError())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[d.GetRunId()]
	if r == nil {
		return
	}
	if i := slices.IndexFunc(r.reading, func(a reading) bool { return a.question.Number == d.GetNumber() }); i >= 0 {
		r.reading[i].answer <- got
		r.reading = slices.Delete(r.reading, i, i+1)
	}
}
