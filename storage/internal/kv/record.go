package kv

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// formatRecord is the first byte of a record. A new optional field takes a new bit of
// the field set instead of a new format: old records stay as they are, and an older
// program refuses a record with a bit it does not know.
const formatRecord = 1

// InlineSize is how many bytes of payload, result, checkpoint, history, signals or children ride in the record; a
// larger part has a key of its own, which changes of the row do not rewrite.
const InlineSize = 512

// fields is the set of optional fields that a record has.
type fields uint64

const (
	hasGroup fields = 1 << iota
	hasKey
	hasOrderingKey
	hasAttempt
	hasCrashes
	hasCreatedAt
	hasReadyAt
	hasNextEventAt
	hasExpiresAt
	hasStartedAt
	hasUpdatedAt
	hasOwner
	hasHeaders
	hasLastError
	hasHistory
	hasPayload
	hasResult
	hasCheckpoint
	farHistory // the history has a key of its own
	farPayload
	farResult
	farCheckpoint
	hasProgress
	hasTurn
	hasBoost    // the row inherits a priority
	isTombstone // nothing follows for it
	hasNode
	hasSignals // what a list needs of them
	hasSignalData
	farSignalData
	hasParent
	hasChildren
	farChildren
	hasSearch
	firstUnknownField
)

const far = farHistory | farPayload | farResult | farCheckpoint | farSignalData | farChildren

// inline are some of the parts of far, when they are in the record. Each bit is at the same distance from its bit in far.
const inline = hasHistory | hasPayload | hasResult | hasCheckpoint

// contradict reports whether f has a part both in the record and under a key of its own.
func (f fields) contradict() bool {
	const signals, children = hasSignalData | farSignalData, hasChildren | farChildren
	return f&inline&(f/(farHistory/hasHistory)) != 0 || f&signals == signals || f&children == children
}

// row is a task as in its record: parts with a key of their own are missing in Task and listed in
// far. A row that other code can see is not changed.
type row struct {
	task.Task
	far fields
}

func (r *row) fields() fields {
	f := r.far
	set := func(bit fields, present bool) {
		if present {
			f |= bit
		}
	}
	set(hasGroup, r.Group != "")
	set(hasKey, r.Key != "")
	set(hasOrderingKey, r.OrderingKey != "")
	set(hasAttempt, r.Attempt != 0)
	set(hasCrashes, r.Crashes != 0)
	set(hasCreatedAt, !r.CreatedAt.IsZero())
	set(hasReadyAt, !r.ReadyAt.IsZero())
	set(hasNextEventAt, !r.NextEventAt.IsZero())
	set(hasExpiresAt, !r.ExpiresAt.IsZero())
	set(hasStartedAt, !r.StartedAt.IsZero())
	set(hasUpdatedAt, !r.UpdatedAt.IsZero())
	set(hasOwner, !r.Owner.IsZero())
	set(hasTurn, r.Turn != task.Unordered)
	set(hasBoost, r.Inherits)
	set(isTombstone, r.Tombstone)
	set(hasNode, r.Node != "")
	set(hasSignals, r.Signals != nil)
	set(hasSignalData, r.far&farSignalData == 0 && hasData(r.Signals))
	set(hasParent, r.Parent != nil)
	set(hasChildren, r.far&farChildren == 0 && r.Children != nil)
	set(hasSearch, len(r.Search) > 0)
	set(hasHeaders, len(r.Headers) > 0)
	set(hasLastError, r.LastError != "")
	set(hasHistory, len(r.History) > 0 && r.far&farHistory == 0)
	set(hasPayload, len(r.Payload) > 0 && r.far&farPayload == 0)
	set(hasResult, len(r.Result) > 0 && r.far&farResult == 0)
	if r.Notes != nil {
		set(hasProgress, r.Notes.Progress != task.Progress{})
		set(hasCheckpoint, len(r.Notes.Checkpoint) > 0 && r.far&farCheckpoint == 0)
	}
	return f
}

// appendRecord encodes r. State and type come first: see peek. Times are stored as
// their distance from CreatedAt in microseconds.
func appendRecord(b []byte, r *row) []byte {
	f := r.fields()
	b = append(b, formatRecord, byte(r.State))
	b = appendString(b, r.Type)
	b = binary.AppendUvarint(b, uint64(f))
	b = append(b, r.Priority)
	b = binary.AppendUvarint(b, r.Version)
	b = binary.AppendUvarint(b, uint64(r.Shard))
	b = binary.AppendUvarint(b, r.Seq)
	for _, o := range [...]struct {
		bit fields
		s   string
	}{{hasGroup, r.Group}, {hasKey, r.Key}, {hasOrderingKey, r.OrderingKey}} {
		if f&o.bit != 0 {
			b = appendString(b, o.s)
		}
	}
	if f&hasAttempt != 0 {
		b = binary.AppendUvarint(b, uint64(r.Attempt))
	}
	if f&hasCrashes != 0 {
		b = binary.AppendUvarint(b, uint64(r.Crashes))
	}
	base := r.base()
	if f&hasCreatedAt != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(base))
	}
	b = appendOffset(b, f&hasReadyAt, base, r.ReadyAt)
	b = appendOffset(b, f&hasNextEventAt, base, r.NextEventAt)
	b = appendOffset(b, f&hasExpiresAt, base, r.ExpiresAt)
	b = appendOffset(b, f&hasStartedAt, base, r.StartedAt)
	b = appendOffset(b, f&hasUpdatedAt, base, r.UpdatedAt)
	if f&hasOwner != 0 {
		b = append(b, r.Owner[:]...)
	}
	if f&hasHeaders != 0 {
		b = appendHeaders(b, r.Headers)
	}
	if f&hasLastError != 0 {
		b = appendString(b, r.LastError)
	}
	if f&hasHistory != 0 {
		b = appendHistory(b, base, r.History)
	}
	if f&hasPayload != 0 {
		b = appendString(b, r.Payload)
	}
	if f&hasResult != 0 {
		b = appendString(b, r.Result)
	}
	if f&hasProgress != 0 {
		b = appendProgress(b, base, r.Notes.Progress)
	}
	if f&hasCheckpoint != 0 {
		b = appendString(b, r.Notes.Checkpoint)
	}
	if f&hasTurn != 0 {
		b = append(b, byte(r.Turn))
	}
	if f&hasBoost != 0 {
		b = append(b, r.Boost)
	}
	if f&hasNode != 0 {
		b = appendString(b, r.Node)
	}
	if f&hasSignals != 0 {
		b = appendSignals(b, r.Signals)
	}
	if f&hasSignalData != 0 {
		b = appendSignalData(b, base, r.Signals)
	}
	if f&hasParent != 0 {
		b = append(b, r.Parent.ID[:]...)
		b = appendString(b, r.Parent.Name)
		b = binary.AppendUvarint(b, uint64(r.Parent.Index))
	}
	if f&hasChildren != 0 {
		b = appendChildren(b, r.Children)
	}
	if f&hasSearch != 0 {
		b = appendSearch(b, r.Search)
	}
	return b
}

// base is the time that the other times of a record are relative to.
func (r *row) base() int64 {
	if r.CreatedAt.IsZero() {
		return 0
	}
	return r.CreatedAt.UnixMicro()
}

func appendString[S ~string | ~[]byte](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendOffset(b []byte, present fields, base int64, t time.Time) []byte {
	if present == 0 {
		return b
	}
	return binary.AppendVarint(b, t.UnixMicro()-base)
}

// appendHeaders writes the names in order, so that equal rows have equal records.
func appendHeaders(b []byte, h map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		b = appendString(b, name)
		b = appendString(b, h[name])
	}
	return b
}

// The optional fields of a progress.
const (
	progressAt fields = 1 << iota
	firstUnknownProgress
)

func appendProgress(b []byte, base int64, p task.Progress) []byte {
	var f fields
	if !p.At.IsZero() {
		f |= progressAt
	}
	b = binary.AppendUvarint(b, uint64(f))
	b = binary.AppendUvarint(b, p.Done)
	b = binary.AppendUvarint(b, p.Total)
	b = appendString(b, p.Message)
	return appendOffset(b, f&progressAt, base, p.At)
}

// The optional fields of an attempt.
const (
	attemptStarted fields = 1 << iota
	attemptEnded
	attemptNode
	attemptError
	attemptSameNode // it is the node of the attempt before, and nothing follows for it
	attemptBy
	attemptJob
	attemptBefore
	firstUnknownAttempt
)

func appendHistory(b []byte, base int64, h []task.Attempt) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	node := ""
	for _, a := range h {
		var f fields
		if !a.StartedAt.IsZero() {
			f |= attemptStarted
		}
		if !a.EndedAt.IsZero() {
			f |= attemptEnded
		}
		switch a.Node {
		case "":
		case node:
			f |= attemptSameNode
		default:
			f |= attemptNode
			node = a.Node
		}
		if a.Error != "" {
			f |= attemptError
		}
		if a.By != "" {
			f |= attemptBy
		}
		if a.Job != "" {
			f |= attemptJob
		}
		if a.Before != "" {
			f |= attemptBefore
		}
		b = binary.AppendUvarint(b, uint64(f))
		b = append(b, byte(a.Outcome))
		b = binary.AppendUvarint(b, uint64(a.Number))
		b = appendOffset(b, f&attemptStarted, base, a.StartedAt)
		b = appendOffset(b, f&attemptEnded, base, a.EndedAt)
		if f&attemptNode != 0 {
			b = appendString(b, a.Node)
		}
		if f&attemptError != 0 {
			b = appendString(b, a.Error)
		}
		if f&attemptBy != 0 {
			b = appendString(b, a.By)
		}
		if f&attemptJob != 0 {
			b = appendString(b, a.Job)
		}
		if f&attemptBefore != 0 {
			b = appendString(b, a.Before)
		}
	}
	return b
}

// decodeRecord reads the record of the task with this id. The row shares no memory
// with b.
func decodeRecord(id task.ID, b []byte, in *interner) (*row, error) {
	d, err := openRecord(id, b)
	if err != nil {
		return nil, err
	}
	r := &row{Task: task.Task{ID: id}}
	r.State = d.state()
	r.Type = in.string(d.bytes())
	f := d.fields(firstUnknownField)
	if f.contradict() {
		d.fail()
	}
	r.Priority = d.byte()
	r.Version = d.uvarint()
	r.Shard = uint16(d.number(math.MaxUint16))
	r.Seq = d.uvarint()
	r.far = f & far
	r.Group = d.optional(f & hasGroup)
	r.Key = d.optional(f & hasKey)
	r.OrderingKey = d.optional(f & hasOrderingKey)
	if f&hasAttempt != 0 {
		r.Attempt = uint32(d.number(math.MaxUint32))
	}
	if f&hasCrashes != 0 {
		r.Crashes = uint32(d.number(math.MaxUint32))
	}
	var base int64
	if f&hasCreatedAt != 0 {
		base = int64(binary.BigEndian.Uint64(d.fixed(8)))
		r.CreatedAt = time.UnixMicro(base).UTC()
	}
	r.ReadyAt = d.offset(f&hasReadyAt, base)
	r.NextEventAt = d.offset(f&hasNextEventAt, base)
	r.ExpiresAt = d.offset(f&hasExpiresAt, base)
	r.StartedAt = d.offset(f&hasStartedAt, base)
	r.UpdatedAt = d.offset(f&hasUpdatedAt, base)
	if f&hasOwner != 0 {
		r.Owner = task.ID(d.fixed(16))
	}
	if f&hasHeaders != 0 {
		r.Headers = d.headers()
	}
	r.LastError = d.optional(f & hasLastError)
	if f&hasHistory != 0 {
		r.History = d.history(base)
	}
	if f&hasPayload != 0 {
		r.Payload = slices.Clone(d.bytes())
	}
	if f&hasResult != 0 {
		r.Result = slices.Clone(d.bytes())
	}
	if f&(hasProgress|hasCheckpoint) != 0 {
		r.Notes = d.notes(f, base)
	}
	if f&hasTurn != 0 {
		r.Turn = d.turn()
	}
	if f&hasBoost != 0 {
		r.Inherits, r.Boost = true, d.byte()
	}
	r.Tombstone = f&isTombstone != 0
	r.Node = d.optional(f & hasNode)
	if f&hasSignals != 0 {
		r.Signals = d.signals()
	}
	if f&hasSignalData != 0 {
		d.signalData(r, base)
	}
	if f&hasParent != 0 {
		r.Parent = &task.Parent{ID: task.ID(d.fixed(16)), Name: in.string(d.bytes()), Index: uint32(d.number(math.MaxUint32))}
	}
	if f&hasChildren != 0 {
		r.Children = d.children()
	}
	if f&hasSearch != 0 {
		r.Search = d.search()
	}
	return r, d.end("record", id)
}

// decodeHistory reads a history that has a key of its own.
func decodeHistory(id task.ID, base int64, b []byte) ([]task.Attempt, error) {
	d := decoder{rest: b}
	h := d.history(base)
	return h, d.end("history", id)
}

// peek reads the part of a record that is needed to count it.
func peek(id task.ID, b []byte, in *interner) (task.State, string, error) {
	d, err := openRecord(id, b)
	if err != nil {
		return 0, "", err
	}
	s, typ := d.state(), in.string(d.bytes())
	if d.bad {
		return 0, "", fmt.Errorf("record of task %v: %w", id, ErrDamaged)
	}
	return s, typ, nil
}

// openRecord checks the format of a record.
func openRecord(id task.ID, b []byte) (decoder, error) {
	d := decoder{rest: b}
	switch format := d.byte(); {
	case d.bad || format == 0:
		return d, fmt.Errorf("record of task %v: %w", id, ErrDamaged)
	case format > formatRecord:
		return d, fmt.Errorf("record of task %v has format %d, this program reads up to %d: %w",
			id, format, formatRecord, storage.ErrFormat)
	}
	return d, nil
}
