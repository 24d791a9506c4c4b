package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// plain sends records with idempotence: what the client sends again is written once.
type plain struct {
	client *kgo.Client // for batches
	single *kgo.Client // for records that were refused with their batch
	sizes  *sizes

	mu      sync.Mutex // held while single sends a record, so that this is its batch alone
	sending sync.WaitGroup
}

func newPlain(c Config) (*plain, error) {
	p := &plain{sizes: newSizes()}
	var err error
	p.client, err = c.Connection.Client(append(producing(), kgo.ProducerBatchMaxBytesFn(p.sizes.of))...)
	if err != nil {
		return nil, err
	}
	p.single, err = c.Connection.Client(append(producing(), kgo.ProducerBatchMaxBytes(largestBatch))...)
	if err != nil {
		p.client.Close()
		return nil, err
	}
	return p, nil
}

// producing returns the options of all producers.
func producing() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerLinger(0), kgo.MaxBufferedRecords(maxRecords), kgo.MaxBufferedBytes(maxBuffered)}
}

// put sends a record. The client gives no record up by itself: it could not say whether it was written.
func (p *plain) put(ctx context.Context, r *kgo.Record, answer func(error)) {
	p.sizes.learn(ctx, p.client, r.Topic)
	p.client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) {
		if errors.Is(err, kerr.MessageTooLarge) { // perhaps only the batch was
			p.sending.Go(func() { answer(p.alone(r)) })
			return
		}
		answer(sent(err))
	})
}

// alone sends a record in a batch of its own.
func (p *plain) alone(r *kgo.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan error, 1)
	p.single.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { done <- sent(err) })
	return <-done
}

// sent returns the error of a record, wrapped with errNotSent if nothing of the record was sent.
func sent(err error) error {
	if errors.Is(err, kgo.ErrMaxBuffered) {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return err
}

func (p *plain) ping(ctx context.Context) error { return p.client.Ping(ctx) }

func (p *plain) close(ctx context.Context) {
	_ = p.client.Flush(ctx) // its error is that of ctx
	_ = p.single.Flush(ctx)
	p.client.Close()
	p.single.Close()
	p.sending.Wait()
}
