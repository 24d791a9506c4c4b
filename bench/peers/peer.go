package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/bench/result"
)

// peer is one instance of a queue with its client. insert may be called by many goroutines at once,
// also while work runs.
type peer interface {
	// insert adds one job per payload and returns when the queue has acknowledged all
	// of them: a single one in the usual way, several in the queue's best way to add
	// many.
	insert(ctx context.Context, payloads ...[]byte) error
	// work starts the workers. They call handle for every job, many at once, and
	// acknowledge the job to the queue when it returns.
	work(ctx context.Context, handle func(payload []byte)) error
	// version returns the versions of the running queue and of the store below it.
	version(ctx context.Context) (queue, store string, err error)
	// idle reports whether the queue holds no job any more, because every one was
	// acknowledged. It is called often at the end of a measurement.
	idle(ctx context.Context) (bool, error)
	// close stops the workers and every process that was started.
	close() error
}

// subject is a queue with settings: a row of the tables. Its versions are unknown until it runs.
type subject struct {
	result.Subject
	short   string // its name in tables and for -only
	durable bool   // an acknowledged insert survives a loss of power
	main    bool   // it is compared: with the best documented settings

	batch   int // jobs of one insert of many
	loaders int // goroutines that insert many
	singles int // goroutines that insert one at a time, and the jobs in flight

	// variants are the settings to choose from. If there are several, each is tried
	// before anything is measured, and the best is used.
	variants []variant
}

// variant is a subject in one of the settings that may be its best.
type variant struct {
	says string // what is special about it; empty if it is the only one
	// open starts the queue in a new folder, and a client, without workers.
	open func(ctx context.Context, e env) (peer, error)
}

// only is for a subject with nothing to choose.
func only(open func(ctx context.Context, e env) (peer, error)) []variant {
	return []variant{{open: open}}
}

// counts returns a variant for each number, of workers or whatever what says.
func counts(what string, open func(ctx context.Context, e env, n int) (peer, error), numbers ...int) []variant {
	return mapped(numbers, func(n int) variant {
		return variant{
			says: fmt.Sprintf("%d %s", n, what),
			open: func(ctx context.Context, e env) (peer, error) { return open(ctx, e, n) },
		}
	})
}

// env is where a peer lives.
type env struct {
	dir  string // empty, below a real disk; removed by the runner
	bin  string // folder of the servers that were built for this run
	pool string // folder that all instances of a run share, to prepare something once
}

// payloadSize is that of every job. It is text, since some queues only take JSON.
const payloadSize = 256

const numberSize = 16 // hexadecimal digits at the beginning of a payload

// payload returns that of the job with a number.
func payload(n int) []byte {
	b := make([]byte, payloadSize)
	var number [numberSize / 2]byte
	binary.BigEndian.PutUint64(number[:], uint64(n))
	hex.Encode(b, number[:])
	copy(b[numberSize:], filler)
	return b
}

var filler = strings.Repeat("x", payloadSize-numberSize)

// number returns the number of the job that a payload belongs to.
func number(payload []byte) (int, error) {
	if len(payload) != payloadSize {
		return 0, fmt.Errorf("a payload has %d bytes, want %d", len(payload), payloadSize)
	}
	var n [numberSize / 2]byte
	if _, err := hex.Decode(n[:], payload[:numberSize]); err != nil {
		return 0, fmt.Errorf("a payload does not begin with a number: %w", err)
	}
	return int(binary.BigEndian.Uint64(n[:])), nil
}

// each calls fn for all payloads, at most n calls at once, and returns the first error:
// how to insert many where a queue has nothing better.
func each(n int, payloads [][]byte, fn func(payload []byte) error) error {
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	step := (len(payloads) + n - 1) / n
	for len(payloads) > 0 {
		part := payloads[:min(step, len(payloads))]
		payloads = payloads[len(part):]
		wg.Go(func() {
			for _, p := range part {
				if err := fn(p); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}
