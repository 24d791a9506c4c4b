// Platforms is three platforms that customers order at: a shop, a market and a depot. Each has an API of another kind, and fails now
// and then. What a platform has can be asked for at /control, where it also can be stopped.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address of the servers")
	history := flag.Duration("history", 45*time.Second, "for how long the platforms have had orders when they start")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "selects the orders")
	calm := flag.Bool("calm", false, "no faults")
	flag.Parse()
	if err := run(*listen, *history, *seed, *calm); err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
}

func run(listen string, history time.Duration, seed uint64, calm bool) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	begin := time.Now().Add(-history)
	all := map[string]*platform{
		"shop":   {book: newBook("S", begin, seed, 0), faults: faults{calm: calm, rate: 25}, serve: shop},
		"market": {book: newBook("M", begin, seed+1, 0), faults: faults{calm: calm, rate: 12}, serve: market},
		"depot":  {book: newBook("D", begin, seed+2, 100), faults: faults{calm: calm, rate: 25}, serve: depot},
	}
	mux := http.NewServeMux()
	for name, p := range all {
		mux.Handle("/"+name+"/", p)
		mux.HandleFunc("GET /control/all/"+name, func(w http.ResponseWriter, _ *http.Request) { answer(w, p.book.all(time.Now())) })
		mux.HandleFunc("POST /control/down/"+name, func(http.ResponseWriter, *http.Request) { p.faults.setDown(true) })
		mux.HandleFunc("POST /control/up/"+name, func(http.ResponseWriter, *http.Request) { p.faults.setDown(false) })
	}
	mux.HandleFunc("POST /control/close", func(w http.ResponseWriter, _ *http.Request) {
		end := time.Now().UTC()
		for _, p := range all {
			p.book.close(end)
		}
		answer(w, end)
	})
	mux.HandleFunc("GET /control/answers", func(w http.ResponseWriter, _ *http.Request) {
		counts := make(map[string]map[string]int)
		for name, p := range all {
			counts[name] = p.faults.counted()
		}
		answer(w, counts)
	})
	fmt.Printf("the platforms are at http://%s\n", l.Addr())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

// platform is a server.
type platform struct {
	book   *book
	faults faults
	serve  func(*book, http.ResponseWriter, *http.Request)
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.faults.spoil(w, r, func(w http.ResponseWriter, r *http.Request) { p.serve(p.book, w, r) })
}

// answer writes JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
