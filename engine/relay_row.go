package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// relayType is the type of the rows of relays. Those of a [Relay] and the cursors are done, and kept until they are deleted:
// nothing runs or removes them. The others are tasks that carry requests to other databases, see [Engine.leave].
const relayType = task.ReservedTypes + "relay"

// relayRow is a row with requests, in their order.
type relayRow struct {
	ref      task.Ref
	requests []farRequest
}

// farRequest is a request for another database, or a signal.
type farRequest struct {
	Request task.Request        `json:"request,omitzero"` // with an id
	Signal  *task.SignalRequest `json:"signal,omitempty"` // with an id; nil for a request
	Parent  *task.Parent        `json:"parent,omitempty"` // of the task of a request
	Number  uint64              `json:"number"`           // among those of the relay to the shard of the id, from 1 on
	Follows bool                `json:"follows"`          // the task is added with the end of an attempt, on no terms; otherwise it was seen that it is not late

	to          task.ID // the task that a signal is for, when it is known
	isDelivered bool
}

// shard returns the shard that a request or a signal is for.
func (r *farRequest) shard() uint16 {
	if r.Signal != nil {
		return r.to.Shard()
	}
	return r.Request.ID.Shard()
}

// write adds a row with requests, in the parent's shard.
func (r *Relay) write(ctx context.Context, tx storage.Tx, requests []farRequest) (*relayRow, error) {
	data, err := json.Marshal(requests)
	if err != nil {
		return nil, fmt.Errorf("encode requests: %w", err)
	}
	if data, err = r.engine.contents.encode(relayType, codec.Payload, data); err != nil {
		return nil, err
	}
	version := uint64(1)
	if r.row != nil {
		version = r.row.ref.Version + 1
	}
	row := r.newRow(r.rowID(), version)
	row.Payload = data
	added, err := tx.Insert(ctx, row)
	if err != nil {
		return nil, err
	}
	if !added[0].Created() {
		return nil, ErrAttemptOver // another has written it
	}
	return &relayRow{ref: row.Ref(), requests: requests}, nil
}

// newRow returns a row of the relay.
func (r *Relay) newRow(id task.ID, version uint64) *task.Task {
	now := r.engine.Now()
	return &task.Task{
		ID: id, Version: version, State: task.Done, Type: relayType, Shard: id.Shard(), Priority: task.DefaultPriority,
		CreatedAt: now, ReadyAt: now, UpdatedAt: now,
	}
}

// read returns the row, nil if there is none.
func (r *Relay) read(ctx context.Context) (*relayRow, error) {
	var row *task.Task
	err := r.home(ctx, func(tx storage.Tx) (err error) { // what it reads is durable
		if row, err = tx.Get(ctx, r.rowID()); errors.Is(err, task.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil || row == nil {
		return nil, err
	}
	of := codec.Content{Type: relayType, Kind: codec.Payload, Max: math.MaxInt32}
	data, err := r.engine.contents.codec.Decode(of, row.Payload)
	if err != nil {
		return nil, fmt.Errorf("row %v: %w", row.ID, err)
	}
	out := &relayRow{ref: row.Ref()}
	if err := json.Unmarshal(data, &out.requests); err != nil {
		return nil, fmt.Errorf("row %v cannot be read: %w", row.ID, err)
	}
	return out, nil
}

// rowID returns the id of the row, in the parent's shard.
func (r *Relay) rowID() task.ID {
	id := r.attempt.ref.ID
	return task.ReservedIDIn(id.Shard(), relayType, id.String(), "row")
}

// cursorOf returns the id of the cursor of a shard.
func (r *Relay) cursorOf(shard uint16) task.ID {
	return task.ReservedIDIn(shard, relayType, r.attempt.ref.ID.String(), r.cursor)
}
