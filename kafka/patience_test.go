package kafka

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The wait for an answer grows while a broker that has answered something gives none, up to a bound. It stays while answers
// are late, and an answer in time ends it. It does not grow for a broker that answers nothing.
func TestTheWaitForABrokerGrowsOnlyIfItHasAnsweredSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patience{factor: make(map[question]int)}
		const wanted = 6 * time.Second
		// ask makes a connection on which the broker answers something first if isThere, and then the question after some
		// time, 0 for never. It returns how long the client has waited, and whether for an answer.
		ask := func(isThere bool, after time.Duration) (waited time.Duration, answered bool) {
			t.Helper()
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			c := &patientConn{Conn: near, patience: p, address: "broker:9092"}
			if isThere {
				go func() { _, _ = far.Write([]byte{1}) }() // near is closed at the end
				if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if after > 0 {
				late := time.AfterFunc(after, func() { _, _ = far.Write([]byte{2}) })
				defer late.Stop()
			}
			begin := time.Now()
			if err := c.SetReadDeadline(begin.Add(wanted)); err != nil {
				t.Fatal(err)
			}
			_, err := io.ReadFull(c, make([]byte, 1))
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			return time.Since(begin), err == nil
		}
		for i, c := range []struct {
			isThere         bool
			after           time.Duration
			waits, answered time.Duration
		}{
			{false, 0, wanted, 0},
			{false, 0, wanted, 0}, // it hangs
			{true, 0, wanted, 0},  // it is slow
			{true, 0, 2 * wanted, 0},
			{false, 0, 4 * wanted, 0}, // and hangs
			{true, 0, 4 * wanted, 0},
			{true, 0, 4 * wanted, 0},
			{true, 3 * wanted, 0, 3 * wanted}, // late
			{true, 0, 4 * wanted, 0},
			{true, time.Second, 0, time.Second}, // in time
			{true, 0, wanted, 0},
			{true, wanted + time.Second, 0, wanted + time.Second},
			{true, 0, 2 * wanted, 0},
		} {
			if waited, answered := ask(c.isThere, c.after); waited != c.waits+c.answered || answered != (c.answered > 0) {
				t.Errorf("question %d: the wait was %v, with an answer: %t; want %v, %v", i, waited, answered, c.waits, c.answered)
			}
		}
	})
}
