package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// faults spoils the answers of a platform: too many requests in a second are refused, and of the others some fail.
type faults struct {
	rate int  // requests per second
	calm bool // the others do not fail

	mu     sync.Mutex
	down   bool           // guarded by mu, as the rest
	tokens float64        // requests that may come now
	at     time.Time      // when they were counted
	asked  int            // requests that were not refused
	counts map[string]int // answers, by their kind
}

func (f *faults) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *faults) counted() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// fate returns the kind of the answer to a request.
func (f *faults) fate(now time.Time) (kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[string]int)
	}
	defer func() { f.counts[kind]++ }()
	f.tokens = min(float64(f.rate), f.tokens+now.Sub(f.at).Seconds()*float64(f.rate))
	f.at = now
	if f.tokens < 1 {
		return "too many"
	}
	f.tokens--
	f.asked++
	switch {
	case f.down:
		return "down"
	case f.calm:
		return "good"
	case f.asked%37 == 0:
		return "error 500"
	case f.asked%41 == 0:
		return "closed"
	case f.asked%43 == 0:
		return "cut off"
	case f.asked%47 == 0:
		return "slow"
	}
	return "good"
}

// spoil serves a request.
func (f *faults) spoil(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	switch f.fate(time.Now()) {
	case "too many":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case "down":
		http.Error(w, "we are working on it", http.StatusServiceUnavailable)
	case "error 500":
		http.Error(w, "something is wrong", http.StatusInternalServerError)
	case "closed":
		panic(http.ErrAbortHandler)
	case "cut off":
		whole := httptest.NewRecorder()
		serve(whole, r)
		maps.Copy(w.Header(), whole.Header())
		w.Header().Set("Content-Length", strconv.Itoa(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "slow":
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
			return
		}
		serve(w, r)
	default:
		serve(w, r)
	}
}
