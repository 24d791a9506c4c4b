package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// mostRenews is how often clients are replaced for one record.
const mostRenews = 3

// plain sends records with an idempotent producer: a record that the client sends again is written once.
type plain struct {
	config  Config
	sizes   *sizes
	closing chan struct{} // closed when clients that were replaced wait for their records no longer

	mu      sync.Mutex
	clients *clients       // guarded by mu: they send further records
	running sync.WaitGroup // of goroutines
}

// clients are the clients of a time. A client refuses a topic that was deleted and created again, and so clients are replaced
// then. To make one forget the topic would have its sequence numbers begin anew, and if it was the same topic after all, the
// broker would take the next records for records that it has, and drop them.
type clients struct {
	batches *kgo.Client
	single  *kgo.Client    // for records that were refused with their batch
	alone   sync.Mutex     // held while single sends a record, so that this is its batch alone
	records sync.WaitGroup // that are on their way
}

func newPlain(c Config) (*plain, error) {
	p := &plain{config: c, sizes: newSizes(), closing: make(chan struct{})}
	var err error
	p.clients, err = p.connect()
	return p, err
}

func (p *plain) connect() (*clients, error) {
	batches, err := p.config.Connection.Client(append(producing(), kgo.ProducerBatchMaxBytesFn(p.sizes.of))...)
	if err != nil {
		return nil, err
	}
	single, err := p.config.Connection.Client(append(producing(), kgo.ProducerBatchMaxBytes(largestBatch))...)
	if err != nil {
		batches.Close()
		return nil, err
	}
	return &clients{batches: batches, single: single}, nil
}

// producing returns the options of all producers.
func producing() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerLinger(0), kgo.MaxBufferedRecords(maxRecords), kgo.MaxBufferedBytes(maxBuffered)}
}

// put sends a record. The client gives no record up by itself: it could not say whether it was written.
func (p *plain) put(ctx context.Context, r *kgo.Record, answer func(error)) {
	if err := p.sizes.learn(ctx, p.current().batches, r.Topic); err != nil {
		answer(fmt.Errorf("%w: %w", errNotSent, err))
		return
	}
	p.send(r, mostRenews, answer)
}

func (p *plain) current() *clients {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients
}

// send sends a record, and replaces the clients for it at most so many times.
func (p *plain) send(r *kgo.Record, renews int, answer func(error)) {
	p.mu.Lock()
	c := p.clients
	c.records.Add(1)
	p.mu.Unlock()
	c.batches.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) {
		if !errors.Is(err, kerr.MessageTooLarge) && !errors.Is(err, kerr.UnknownTopicID) && !spoils(err) {
			c.records.Done()
			answer(sent(err))
			return
		}
		p.running.Go(func() {
			if errors.Is(err, kerr.MessageTooLarge) { // perhaps only the batch was
				err = c.sendAlone(r)
			}
			c.records.Done()
			if errors.Is(err, kerr.UnknownTopicID) && renews > 0 && p.renew(c) {
				p.send(r, renews-1, answer)
				return
			}
			if spoils(err) {
				p.renew(c)
			}
			answer(sent(err))
		})
	})
}

// sendAlone sends a record in a batch of its own.
func (c *clients) sendAlone(r *kgo.Record) error {
	c.alone.Lock()
	defer c.alone.Unlock()
	done := make(chan error, 1)
	c.single.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { done <- err })
	return <-done
}

// renew replaces clients unless that was done, and reports whether there are others now. The old ones are closed when
// their records have arrived.
func (p *plain) renew(old *clients) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients != old {
		return true
	}
	c, err := p.connect()
	if err != nil {
		return false
	}
	p.clients = c
	p.running.Go(func() {
		arrived := make(chan struct{})
		p.running.Go(func() {
			old.records.Wait()
			close(arrived)
		})
		select {
		case <-arrived:
		case <-p.closing:
		}
		old.close()
	})
	return true
}

func (c *clients) close() {
	c.batches.Close()
	c.single.Close()
}

// sent returns the error of a record, wrapped with errNotSent if nothing of the record was sent.
func sent(err error) error {
	if errors.Is(err, kgo.ErrMaxBuffered) {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return err
}

func (p *plain) ping(ctx context.Context) error { return p.current().batches.Ping(ctx) }

func (p *plain) close(ctx context.Context) {
	c := p.current()
	_ = c.batches.Flush(ctx) // its error is that of ctx
	_ = c.single.Flush(ctx)
	close(p.closing)
	c.close()
	p.running.Wait()
}
