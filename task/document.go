package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// DocumentType is the type of the rows that are documents. Such a row is [Done], has the key of the document as its Key and the data
// as its Payload. Nothing runs it, and it is kept until it is deleted or expires.
const DocumentType = ReservedTypes + "document"

// Limits of documents.
const (
	MaxDocument  = 256 << 10 // bytes of the data of a document
	MaxDocuments = 16        // documents that the end of one attempt writes
)

// ClassDocumentConflict is the class of the verdict on an attempt whose end was not written because of a [DocumentConflict]. It is that of an
// error if the type is at_most_once.
const ClassDocumentConflict = "document_conflict"

// Document is a small state that several tasks share, and that is kept when they have ended.
type Document struct {
	Key       string
	Data      []byte
	Version   uint64    // another one, and a greater one, after each write; it begins anywhere above 0
	CreatedAt time.Time // when it was first written
	UpdatedAt time.Time // when it was last written
	ExpiresAt time.Time // from when on it does not exist; zero is never
}

// DocumentWrite describes a write of a document: it gets new data, or is deleted.
type DocumentWrite struct {
	Key    string // as the key of a task; see [DocumentShard] where several databases keep the tasks
	Data   []byte // at most MaxDocument bytes
	Delete bool   // the document is deleted, whether it exists or not

	// Replaces is the version that the document has to have for the write to be made; 0 is that it does not exist. Nil is any version.
	Replaces *uint64

	ExpiresAt time.Time // see Document
}

// DocumentReader is a [Reporter] that reads documents.
type DocumentReader interface {
	// ReadDocument returns the document of a key; its Version is 0 if there is none.
	ReadDocument(key string) (Document, error)
}

var errNoReader = errors.New("the context is not that of a handler that an engine runs: no documents can be read with it")

// ReadDocument returns a document, for the attempt of ctx. Its Version is 0 if there is none. A write that depends on what was read
// names that version as the one that it replaces, also if it is 0, see [WithDocuments].
func ReadDocument(ctx context.Context, key string) (Document, error) {
	if r, ok := ReporterOf(ctx).(DocumentReader); ok {
		return r.ReadDocument(key)
	}
	return Document{}, errNoReader
}

// Write returns a write of new data to d that conflicts if another one comes before it.
func (d *Document) Write(data []byte) DocumentWrite {
	return DocumentWrite{Key: d.Key, Data: data, Replaces: &d.Version, ExpiresAt: d.ExpiresAt}
}

// DocumentShard returns the shard of the document of a key: that of the first part of the key in braces that is not empty, or else of
// the whole key. So tasks with the ordering key customer/17 are in the shard of the documents customer/17 and {customer/17}/cart.
func DocumentShard(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return ShardOf(tag)
		}
	}
	return ShardOf(key)
}

// DocumentID returns the ID of the row of a document.
func DocumentID(key string) ID { return ReservedIDIn(DocumentShard(key), DocumentType, key) }

// DocumentConflict says that a document had another version than the one that a write replaces. Nothing of the transaction was written.
//
// An attempt that fails with an error that wraps it does not count: its task runs again after a short random delay.
type DocumentConflict struct {
	Key      string
	Version  uint64 // of the document; 0 if it did not exist
	Replaces uint64 // by the write
}

// Error implements error.
func (c *DocumentConflict) Error() string {
	switch {
	case c.Version == 0:
		return fmt.Sprintf("the document %q does not exist any more, and its version %d was to be replaced", c.Key, c.Replaces)
	case c.Replaces == 0:
		return fmt.Sprintf("the document %q exists, with version %d, and was to be created", c.Key, c.Version)
	}
	return fmt.Sprintf("the document %q has version %d, and version %d was to be replaced", c.Key, c.Version, c.Replaces)
}

// DocumentChange is a [DocumentWrite] as a store makes it.
type DocumentChange struct {
	Row      *Task   // the row of the document, without a version; UpdatedAt is the time of the write
	Replaces *uint64 // see DocumentWrite
	Delete   bool    // likewise
}

// NewDocumentChange returns the change of a write at a time, with the data as it is to be stored.
func NewDocumentChange(now time.Time, w *DocumentWrite, stored []byte) DocumentChange {
	now, id := Stamp(now), DocumentID(w.Key)
	return DocumentChange{
		Row: &Task{
			ID: id, State: Done, Type: DocumentType, Shard: id.Shard(), Priority: DefaultPriority, Key: w.Key,
			CreatedAt: now, ReadyAt: now, UpdatedAt: now, NextEventAt: Stamp(w.ExpiresAt), Payload: stored,
		},
		Replaces: w.Replaces, Delete: w.Delete,
	}
}

// DocumentOf returns the document of a row at a time, with the data as it is stored; nil if t is nil, or is no document, or not any more.
func DocumentOf(t *Task, now time.Time) *Document {
	if t == nil || t.Type != DocumentType || t.State != Done || t.Erased() != nil || !t.NextEventAt.IsZero() && !now.Before(t.NextEventAt) {
		return nil
	}
	return &Document{Key: t.Key, Data: t.Payload, Version: t.Version, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, ExpiresAt: t.NextEventAt}
}

// Conflict returns why c cannot be made of a document with the row old, nil if there is none. It returns nil if c can be made.
func (c *DocumentChange) Conflict(old *Task) *DocumentConflict {
	if c.Replaces == nil {
		return nil
	}
	version := uint64(0)
	if d := DocumentOf(old, c.Row.UpdatedAt); d != nil {
		version = d.Version
	}
	if version == *c.Replaces {
		return nil
	}
	return &DocumentConflict{Key: c.Row.Key, Version: version, Replaces: *c.Replaces}
}

// Over returns the row that takes the place of old, which may be nil; nil if there is none afterwards.
//
// The first version of a document is the time at which it is written, in microseconds. So a document that is deleted and written again
// has no version that it had before.
func (c *DocumentChange) Over(old *Task) *Task {
	if c.Delete {
		return nil
	}
	row := *c.Row
	row.Payload = slices.Clone(c.Row.Payload)
	row.Version = uint64(max(1, row.UpdatedAt.UnixMicro()))
	if d := DocumentOf(old, row.UpdatedAt); d != nil {
		row.Version, row.CreatedAt, row.ReadyAt = old.Version+1, d.CreatedAt, d.CreatedAt
	} else if old != nil {
		row.Version = max(row.Version, old.Version+1)
	}
	return &row
}

// Conflicting returns the verdict in place of v on an attempt whose end is not written because of a [DocumentConflict].
func (v *Verdict) Conflicting(r *Rules) Verdict {
	if r.AtMostOnce { // the work was done
		return Verdict{Outcome: Errored, Class: ClassDocumentConflict, Delay: -1, InDoubt: true, Reencoded: v.Reencoded}
	}
	return Verdict{Outcome: Snoozed, Class: ClassDocumentConflict, Reencoded: v.Reencoded}
}

// A task whose end conflicts runs again after a random time, so that tasks that write one document do not meet again and again. The
// longest time doubles with each conflict in a row.
const (
	firstConflict   = 10 * time.Millisecond
	doublesConflict = 7 // times
)

// conflictsOf returns how many attempts in a row, the last ones, have ended with a conflict.
func conflictsOf(t *Task) (n int) {
	for i := len(t.History) - 1; i >= 0 && t.History[i].Outcome == Snoozed && t.History[i].Error != ""; i-- {
		n++
	}
	return n
}

// conflictDelay returns the delay after a conflict. chance is in [0,1).
func (r *Running) conflictDelay(chance float64) time.Duration {
	most := firstConflict << min(r.conflicts, doublesConflict)
	return time.Duration(chance * float64(most))
}
