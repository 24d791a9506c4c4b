//go:build unix

package ordersaga_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
)

// world is the bank, the warehouse and the carrier. Each carries out one request for each key. It fails now and then, before or
// after it has done something.
type world struct {
	mu       sync.Mutex
	asked    int             // guarded by mu, as the rest: requests
	did      map[string]bool // by key: whether it succeeded
	charged  map[string]int  // by order: how often
	refunded map[string]int
	shipped  map[string]int
	held     map[string]map[int]bool // by order: the numbers of the items that are reserved
	calm     bool                    // it does not fail any more
}

func newWorld() *world {
	return &world{
		did: make(map[string]bool), charged: make(map[string]int), refunded: make(map[string]int), shipped: make(map[string]int),
		held: make(map[string]map[int]bool),
	}
}

func (w *world) ServeHTTP(res http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	fault := rand.IntN(10)
	if fault == 0 && !w.calm {
		http.Error(res, "come back later", http.StatusServiceUnavailable)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	ok, known := w.did[key]
	if !known {
		ok = w.do(r)
		w.did[key] = ok
	}
	switch {
	case fault == 1 && !w.calm:
		panic(http.ErrAbortHandler) // the answer is lost
	case !ok:
		http.Error(res, "there is none left", http.StatusConflict)
	}
}

// do does what a request asks for, which has come for the first time. mu is held.
func (w *world) do(r *http.Request) bool {
	order := r.PathValue("order")
	var item struct {
		Number int    `json:"number"`
		Name   string `json:"name"`
	}
	switch r.PathValue("what") {
	case "charge":
		w.charged[order]++
	case "refund":
		w.refunded[order]++
	case "ship":
		w.shipped[order]++
	case "reserve":
		if json.NewDecoder(r.Body).Decode(&item) != nil || item.Name == "rare" {
			return false
		}
		if w.held[order] == nil {
			w.held[order] = make(map[int]bool)
		}
		w.held[order][item.Number] = true
	case "release":
		if json.NewDecoder(r.Body).Decode(&item) != nil {
			return false
		}
		delete(w.held[order], item.Number)
	}
	return true
}

// requests returns how many there were.
func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}
