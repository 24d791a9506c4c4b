package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
)

// transactionPause is how long a transactor waits after a transaction that failed as a whole.
const transactionPause = 200 * time.Millisecond

// transactor sends records in transactions, one after the other: while one is under way, the records of the next gather.
type transactor struct {
	config  Config
	sizes   *sizes
	admin   *kgo.Client // for requests outside of transactions
	client  *kgo.Client // run owns it
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // has room for one signal

	mu     sync.Mutex
	next   []*member // guarded by mu: the records of the next transaction
	closed bool      // guarded by mu: no record is accepted any more, and wake is closed
}

// member is a record of a transaction.
type member struct {
	record *kgo.Record
	answer func(error)
	err    error // of the newest transaction
	renews int   // how often the client was replaced for it
}

func newTransactor(c Config) (*transactor, error) {
	x := &transactor{config: c, sizes: newSizes(), wake: make(chan struct{}, 1)}
	client, err := x.connect()
	if err != nil {
		return nil, err
	}
	if x.admin, err = c.Connection.Client(); err != nil {
		client.Close()
		return nil, err
	}
	x.client = client
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	x.running.Go(func() { x.run(ctx) })
	return x, nil
}

// connect returns a client. Its first transaction aborts an open one of an earlier process with the same id.
func (x *transactor) connect() (*kgo.Client, error) {
	return x.config.Connection.Client(append(producing(), kgo.TransactionalID(x.config.TransactionalID),
		kgo.TransactionTimeout(2*x.config.Timeout), kgo.ProducerBatchMaxBytesFn(x.sizes.of))...)
}

func (x *transactor) put(ctx context.Context, r *kgo.Record, answer func(error)) {
	if err := x.sizes.learn(ctx, x.admin, r.Topic); err != nil {
		answer(fmt.Errorf("%w: %w", errNotSent, err))
		return
	}
	if !x.add(&member{record: r, answer: answer}) {
		answer(fmt.Errorf("%w: the handler stops", errNotSent))
	}
}

// add adds a record to the next transaction, and reports whether there will be one.
func (x *transactor) add(m *member) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	x.next = append(x.next, m)
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return true
}

func (x *transactor) ping(ctx context.Context) error { return x.admin.Ping(ctx) }

// close lets the waiting records become transactions until ctx ends.
func (x *transactor) close(ctx context.Context) {
	x.mu.Lock()
	x.closed = true
	close(x.wake)
	x.mu.Unlock()
	unhook := context.AfterFunc(ctx, x.stop)
	defer unhook()
	x.running.Wait()
	x.stop()
	x.client.Close()
	x.admin.Close()
}

// run makes transactions until it is closed and no record waits, or ctx has ended.
func (x *transactor) run(ctx context.Context) {
	for {
		_, open := <-x.wake
		for {
			x.mu.Lock()
			members := x.next
			x.next = nil
			x.mu.Unlock()
			if len(members) == 0 {
				break
			}
			x.transact(ctx, members)
		}
		if !open {
			return
		}
	}
}

// transact sends records in one transaction, and answers them. Records that are refused abort it; the others are then sent
// in another one.
func (x *transactor) transact(ctx context.Context, members []*member) {
	single := false // each record is a batch of its own
	for len(members) > 0 {
		committed, err := x.attempt(ctx, members, single)
		var again []*member
		renew := false
		for _, m := range members {
			_, refused := kafka.RefusalOf(m.record.Topic, m.err)
			switch {
			case committed:
				m.answer(nil)
			case errors.Is(m.err, kerr.MessageTooLarge) && !single && len(members) > 1: // perhaps only the batch was
				again = append(again, m)
			case errors.Is(m.err, kerr.UnknownTopicID) && m.renews < mostRenews: // the topic may have been created again
				m.renews++
				again, renew = append(again, m), true
			case refused:
				m.answer(m.err)
			case err == nil:
				again = append(again, m)
			default:
				m.answer(err)
			}
		}
		if renew {
			x.renew()
		}
		if err != nil {
			x.pause(ctx)
		}
		single = single || slices.ContainsFunc(again, func(m *member) bool { return errors.Is(m.err, kerr.MessageTooLarge) })
		members = again
	}
}

// attempt sends records in one transaction. If it returns false without an error, at least one record was refused, which
// its err says, and nothing was written. An error is of all records, and wraps errNotSent if nothing was written for sure.
func (x *transactor) attempt(ctx context.Context, members []*member, single bool) (committed bool, err error) {
	until, cancel := context.WithTimeoutCause(ctx, x.config.Timeout, errTimeout)
	defer cancel()
	for _, m := range members {
		m.err = nil
	}
	if err := x.client.BeginTransaction(); err != nil {
		x.renew()
		return false, fmt.Errorf("%w: %w", errNotSent, x.explain(err))
	}
	if !x.send(until, members, single) {
		return false, fmt.Errorf("%w, because the transaction was not confirmed: %w", errNotSent, context.Cause(until))
	}
	failed, refused, spoilt := error(nil), false, false
	for _, m := range members {
		if m.err != nil {
			failed, spoilt = m.err, spoilt || spoils(m.err)
			_, is := kafka.RefusalOf(m.record.Topic, m.err)
			refused = refused || is
		}
	}
	if failed != nil {
		if err := x.client.EndTransaction(until, kgo.TryAbort); err != nil || spoilt {
			x.renew()
		}
		if refused {
			return false, nil
		}
		return false, fmt.Errorf("%w, because the transaction was aborted: %w", errNotSent, x.explain(failed))
	}
	err = x.client.EndTransaction(until, kgo.TryCommit)
	if err == nil {
		return true, nil
	}
	return x.settle(ctx, members[0].record, err)
}

// send sends the records of the transaction, and reports whether all of them have an outcome. Otherwise there is another
// client then, and the broker ends the transaction when that begins one.
func (x *transactor) send(ctx context.Context, members []*member, single bool) bool {
	var sending sync.WaitGroup
	for _, m := range members {
		sending.Add(1)
		x.client.TryProduce(context.Background(), m.record, func(_ *kgo.Record, err error) {
			m.err = err
			sending.Done()
		})
		if single && x.client.Flush(ctx) != nil {
			break
		}
	}
	err := x.client.Flush(ctx)
	if err != nil {
		x.renew()
	}
	sending.Wait()
	return err == nil
}

// settle finds out whether a transaction is committed after its commit has failed with err. r is a record that was written in
// it. It waits until a broker answers: attempts run out of time meanwhile, and the next ones wait for the same records. An
// error that does not wrap errNotSent leaves the question open: the record cannot be read, or ctx has ended.
func (x *transactor) settle(ctx context.Context, r *kgo.Record, err error) (committed bool, _ error) {
	x.renew()
	committed, unknown := x.look(ctx, r)
	for unknown != nil && ctx.Err() == nil {
		if _, refused := kafka.RefusalOf(r.Topic, unknown); refused || errors.Is(unknown, errNotRead) {
			break
		}
		x.pause(ctx)
		x.renew()
		committed, unknown = x.look(ctx, r)
	}
	switch {
	case unknown != nil:
		return false, fmt.Errorf("it is unknown whether the transaction was committed: %w (%w)", x.explain(err), unknown)
	case committed:
		return true, nil
	}
	return false, fmt.Errorf("%w, because the transaction was not committed: %w", errNotSent, x.explain(err))
}

// look returns whether the transaction of a record was committed, of which the client before has not heard. It has the
// brokers end the transaction if it is open, and then reads the record as programs do that read committed records.
func (x *transactor) look(ctx context.Context, r *kgo.Record) (committed bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.config.Timeout, errTimeout)
	defer cancel()
	if _, _, err := x.client.ProducerID(ctx); err != nil {
		return false, err
	}
	ends, err := kadm.NewClient(x.admin).ListCommittedOffsets(ctx, r.Topic)
	if err != nil {
		return false, err
	}
	switch end, ok := ends.Lookup(r.Topic, r.Partition); {
	case !ok:
		return false, fmt.Errorf("%w: the brokers do not know its partition", errNotRead)
	case end.Err != nil:
		return false, end.Err
	case end.Offset <= r.Offset: // the record is not in the log
		return false, nil
	}
	at := map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(r.Offset)}}
	reader, err := x.config.Connection.Client(kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return false, err
	}
	defer reader.Close()
	for {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); ctx.Err() != nil {
			return false, fmt.Errorf("%w: %w", errNotRead, context.Cause(ctx))
		} else if err != nil {
			return false, err
		}
		if all := fetched.Records(); len(all) > 0 { // the marker that ended the transaction comes after r
			return all[0].Offset == r.Offset && contentOf(all[0]) == contentOf(r), nil
		}
	}
}

// renew replaces the client, which may be unusable.
func (x *transactor) renew() {
	x.client.Close()
	if client, err := x.connect(); err == nil { // else the closed client says so with each record
		x.client = client
	}
}

// explain adds what to do if another process has the transactional id.
func (x *transactor) explain(err error) error {
	if isFenced(err) {
		return fmt.Errorf("another process uses the transactional id %s; give each node a node.name of its own: %w", x.config.TransactionalID, err)
	}
	return err
}

func (x *transactor) pause(ctx context.Context) {
	timer := time.NewTimer(transactionPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}
