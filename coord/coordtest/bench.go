package coordtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// BenchmarkSemaphore measures how long a holder waits for permits, and how long until they are known to be
// given back, with batches of several limits in one call. It reports permits for each second, and the median
// and the 99th percentile of the time from an order to its answer.
func BenchmarkSemaphore(b *testing.B, node coord.Semaphore) {
	for _, size := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("limits=%d", size), func(b *testing.B) {
			ctx, end := context.WithCancel(b.Context())
			news, returned := make(chan []coord.Holding, 1), make(chan error, 1)
			id := newID()
			go func() {
				returned <- node.Hold(ctx, id, func(all []coord.Holding) {
					select {
					case news <- all:
					case <-ctx.Done():
					}
				})
			}()
			<-news
			var waits []time.Duration
			number := uint64(0)
			b.ResetTimer()
			for b.Loop() {
				for want := 1; want >= 0; want-- {
					number++
					orders := batch(id.String(), size, want, number)
					start := time.Now()
					node.Order(id, orders...)
					awaitAnswers(news, number, size)
					waits = append(waits, time.Since(start))
				}
			}
			b.StopTimer()
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "permits/s")
			end()
			if err := <-returned; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// batch returns orders for one permit, or none, of some limits that no other holder uses.
func batch(prefix string, size, want int, number uint64) []coord.Order {
	all := make([]coord.Order, size)
	for i := range all {
		all[i] = coord.Order{Name: fmt.Sprint(prefix, "/", i), Number: number, Want: want, Max: 1}
	}
	return all
}

// awaitAnswers waits until as many orders of a number are answered.
func awaitAnswers(news <-chan []coord.Holding, number uint64, orders int) {
	for orders > 0 {
		for _, h := range <-news {
			if h.Number == number {
				orders--
			}
		}
	}
}
