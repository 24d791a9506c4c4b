//go:build !race

package e2e

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
)

// sizeLoad adds tasks at a steady rate, whose handler notes when they begin. Each is added at its time, however long the ones before it take.
type sizeLoad struct {
	notes string // the file of the handler
	end   func()
}

const sizeLoadRate = 200 // tasks in a second

// beginLoad adds tasks of the type load to a node until end is called.
func beginLoad(b *testing.B, address, token, notes string) *sizeLoad {
	b.Helper()
	c, err := client.Open([]string{address}, client.Options{Token: token})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for at := time.Now(); ctx.Err() == nil; at = at.Add(time.Second / sizeLoadRate) {
			time.Sleep(time.Until(at))
			all.Go(func() {
				if _, err := c.Submit(ctx, "load", client.Raw(strconv.AppendInt(nil, at.UnixNano(), 10))); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			})
		}
	})
	return &sizeLoad{notes, func() {
		cancel()
		all.Wait()
		c.Close()
	}}
}

// between returns the delays of the starts of all tasks of a period. It waits for the notes of late starts.
func (l *sizeLoad) between(b *testing.B, from, to time.Time) (delays []time.Duration) {
	b.Helper()
	want := int(to.Sub(from).Seconds() * sizeLoadRate * 0.999)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		content, err := os.ReadFile(l.notes)
		if err != nil {
			b.Fatal(err)
		}
		delays = delays[:0]
		for note := range slices.Chunk(content[:len(content)/16*16], 16) {
			if at := int64(binary.BigEndian.Uint64(note)); at >= from.UnixNano() && at < to.UnixNano() {
				delays = append(delays, time.Duration(binary.BigEndian.Uint64(note[8:])))
			}
		}
		if len(delays) >= want-1 {
			slices.Sort(delays)
			return delays
		}
		if time.Since(begin) > limit {
			b.Fatalf("%d of %d tasks of the load have begun", len(delays), want)
		}
	}
}

// quantileOf returns a quantile of durations, which are sorted.
func quantileOf(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
