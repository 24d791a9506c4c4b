package server

import (
	"encoding/json"
	"expvar"
	"io"
	"net/http"
	"net/http/pprof"
)

// AdminConfig is what the admin listener shows.
type AdminConfig struct {
	Health  *Health
	Metrics *Metrics
	Build   Build
	Backups *Backups // nil is none
	Token   string   // what callers of private paths must send; "" is nothing, then they must be on this machine
}

// NewAdmin returns the handler of the admin listener. Its backups and profiles hand out tasks:
// these paths are private, see [AdminConfig.Token].
func NewAdmin(c AdminConfig) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", c.Health.ready)
	mux.Handle("GET /metrics", c.Metrics.Handler())
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(c.Build) // the client has gone if this fails
	})
	if c.Backups != nil {
		mux.Handle("POST /backup", private(c.Token, http.HandlerFunc(c.Backups.serve)))
	}
	debug := http.NewServeMux()
	debug.Handle("GET /debug/vars", expvar.Handler())
	debug.HandleFunc("/debug/pprof/", pprof.Index) // of any method: pprof asks for symbols by POST
	debug.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	debug.HandleFunc("/debug/pprof/profile", pprof.Profile)
	debug.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	debug.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/", private(c.Token, debug))
	return mux
}
