package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Relay adds tasks for the attempts of one task, their parent, where several databases may keep the tasks. A transaction of
// the parent's database adds the tasks of that database, and one row that has the requests of the others. When it is
// committed, the requests are delivered: each database adds its tasks in a transaction that moves the cursors of their
// shards. A cursor is a row beside the tasks of a shard. Its version is the number of the last request of the relay that
// was delivered there, so that a request is delivered once, and in order.
//
// There is one row at a time, with a fixed id, so that the tasks that wait for a database are bounded: the parent waits as well.
//
// A Relay belongs to one goroutine, which runs an attempt of the parent.
type Relay struct {
	engine  *Engine
	attempt *attempt
	store   relayStore
	termsOf func([]*task.Task) []storage.Terms // on which others are added
	cursor  string                             // the name of the cursor of a carrier; "" for cursors that are kept
	row     *relayRow                          // as it is committed, perhaps delivered; nil if there is none
	next    *relayRow                          // within Update: as it is afterwards
	last    map[uint16]uint64                  // by shard: the number of the last request; shards to which this attempt has sent none are missing
}

var (
	errRelayStore = errors.New("engine: the store keeps tasks in several databases, and has no transactions of one of them")
	errCursor     = errors.New("a cursor of a relay is not where it was expected")
)

// OpenRelay returns the relay of the task of the handler that has ctx. The store is that of the engine.
func (e *Engine) OpenRelay(ctx context.Context, _ reserved.Owner, store storage.Store) (*Relay, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, fmt.Errorf("engine: open a relay: %w", errNoAttempt)
	}
	r := &Relay{engine: e, attempt: a, termsOf: e.catalog.terms, last: make(map[uint16]uint64)}
	var err error
	if r.store, err = relayStoreOf(store); err == nil {
		r.row, err = r.read(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: read the tasks that %v sends to other databases: %w", a.ref.ID, err)
	}
	return r, nil
}

// IsEmpty reports whether the relay has no row, not even one that was delivered.
func (r *Relay) IsEmpty() bool { return r.row == nil }

// Relayed are requests of which it is known where their tasks belong, and which are to be added in one transaction.
type Relayed struct {
	near []task.Request // for tasks in the parent's database
	rows []*task.Task   // of near, without generated ids yet
	home task.Shards    // for these
	far  []farRequest
	at   []int // of near and then far, in the requests
}

// Place finds out where the tasks of prepared requests belong, which it uses up; nil is none. They are added once, by the next
// Update, or thrown away.
func (r *Relay) Place(ctx context.Context, of *Prepared) (*Relayed, error) {
	if of == nil {
		return &Relayed{}, nil
	}
	if of.engine != r.engine {
		return nil, errPreparedSpent
	}
	of.engine = nil
	reqs, rows := of.reqs, of.rows
	var err error
	p, numbers := &Relayed{home: r.near()}, make(map[uint16]uint64)
	var far []int
	for i, t := range rows {
		shard, isBound := task.BoundShard(t.Type, t.Key, t.OrderingKey)
		if !t.ID.IsZero() {
			shard, isBound = t.ID.Shard(), true
		}
		if !isBound || p.home.Has(shard) {
			p.near, p.rows, p.at = append(p.near, reqs[i]), append(p.rows, t), append(p.at, i)
		} else {
			far = append(far, i)
		}
	}
	for _, i := range far {
		r.engine.catalog.settle(rows[i], nil)
		shard := rows[i].ID.Shard()
		if _, known := numbers[shard]; !known {
			if numbers[shard], err = r.numberOf(ctx, shard); err != nil {
				return nil, fmt.Errorf("engine: relay: %w", err)
			}
		}
		numbers[shard]++
		one := reqs[i]
		one.ID, one.Key = rows[i].ID, rows[i].Key // whatever changes of its type
		p.far, p.at = append(p.far, farRequest{Request: one, Number: numbers[shard]}), append(p.at, i)
	}
	return p, nil
}

// home runs fn in a transaction of the parent's database.
func (r *Relay) home(ctx context.Context, fn func(storage.Tx) error) error {
	return r.store.updateIn(ctx, r.store.databaseOf(r.attempt.ref.ID.Shard()), fn)
}

// near returns the shards in the parent's database.
func (r *Relay) near() (shards task.Shards) {
	own := r.attempt.ref.ID.Shard()
	for shard := range uint16(task.ShardCount) {
		if r.store.databaseOf(shard) == r.store.databaseOf(own) {
			shards.Add(shard)
		}
	}
	return shards
}

// numberOf returns the number of the last request of the relay to a shard.
func (r *Relay) numberOf(ctx context.Context, shard uint16) (uint64, error) {
	if n, ok := r.last[shard]; ok {
		return n, nil
	}
	cursor, err := r.store.Get(ctx, r.cursorOf(shard))
	switch {
	case errors.Is(err, task.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read how far shard %d is: %w", shard, err)
	}
	return cursor.Version, nil
}

// Update runs fn in a transaction of the parent's database, after it has delivered the undelivered requests. fn calls
// SubmitTx at most once, and [CheckpointTx], so that nothing is done if the attempt does not count any more. If Update
// returns an error that is not one of fn, the transaction may have been committed, and the relay is of no use any more.
func (r *Relay) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := r.Deliver(ctx); err != nil {
		return err
	}
	r.next = nil
	err := r.home(ctx, func(tx storage.Tx) error {
		if r.row != nil {
			gone, err := tx.Delete(ctx, r.row.ref)
			if err == nil && !gone[0] {
				err = ErrAttemptOver
			}
			if err != nil {
				return fmt.Errorf("engine: relay: %w", err)
			}
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	if r.row = r.next; r.row != nil {
		for i := range r.row.requests {
			r.last[r.row.requests[i].Request.ID.Shard()] = r.row.requests[i].Number
		}
	}
	return nil
}

// SubmitTx adds placed requests within a transaction of Update, as [Engine.SubmitTx] does. The receipts of requests for
// other databases say that their tasks were created, although they are not yet: it is found out there whether their keys are
// taken, or whether they are late.
func (r *Relay) SubmitTx(ctx context.Context, tx storage.Tx, p *Relayed) (receipts []Receipt, err error) {
	receipts = make([]Receipt, len(p.at))
	if len(p.rows) > 0 {
		for _, t := range p.rows { // now: rows that come in the order of their ids cost a store less to look up and to sort
			r.engine.catalog.settle(t, &p.home)
		}
		near, failed := r.engine.submitRowsTx(ctx, tx, p.near, p.rows, r.engine.catalog.terms)
		if failed != nil && near == nil {
			return nil, failed
		}
		for i, one := range near {
			receipts[p.at[i]] = one
		}
		err = failed
	}
	for i, one := range p.far {
		receipts[p.at[len(p.rows)+i]] = Receipt{ID: one.Request.ID, Created: true, Outcome: OutcomeCreated}
	}
	if len(p.far) == 0 {
		return receipts, err
	}
	next, failed := r.write(ctx, tx, p.far)
	if failed != nil {
		return nil, fmt.Errorf("engine: relay: %w", failed)
	}
	r.next = next
	return receipts, err
}

// relayStore is the store of a relay.
type relayStore struct {
	storage.Store
	divided  storage.Divided // nil if it is one database
	updateIn func(ctx context.Context, database int, fn func(storage.Tx) error) error
}

func relayStoreOf(s storage.Store) (relayStore, error) {
	divided, isDivided := s.(storage.Divided)
	if !isDivided {
		return relayStore{Store: s, updateIn: func(ctx context.Context, _ int, fn func(storage.Tx) error) error { return s.Update(ctx, fn) }}, nil
	}
	one, ok := s.(storage.PartUpdater)
	if !ok {
		return relayStore{}, errRelayStore
	}
	return relayStore{Store: s, divided: divided, updateIn: one.UpdateIn}, nil
}

// databaseOf returns the number of the database of a shard.
func (s *relayStore) databaseOf(shard uint16) int {
	if s.divided == nil {
		return 0
	}
	return s.divided.DatabaseOf(shard)
}

// relayType is the type of the rows of relays. The rows of a [Relay] and the cursors are done, and kept until they are deleted:
// nothing runs or removes them. The others are tasks that carry requests to other databases, see [Engine.leave].
const relayType = task.RelayType

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
	Gone    []task.State        `json:"gone,omitempty"`   // how the tasks in After of a request have ended if they are not in the store any more
	Number  uint64              `json:"number"`           // among the rows of the relay to the shard of the id, from 1 on
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
	err := r.home(ctx, func(tx storage.Tx) (err error) { // the rows that it reads are durable
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
