package server

import (
	"encoding/json"
	"expvar"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/taskengine/taskengine/internal/access"
)

// AdminConfig configures the admin listener.
type AdminConfig struct {
	Health  *Health
	Metrics *Metrics
	Build   Build
	Backups *Backups // nil for none
	Scaler  bool     // whether it is an external scaler of KEDA, for the types of Metrics

	// Backups and profiles contain tasks, so their paths are private. A request to them is admitted if it carries Token, or a
	// token of Tokens with the role admin for all types. If Token is "" and Tokens is nil, it is admitted if it comes from this
	// machine, unless Distrusts says that other users of the machine must not get tasks.
	Token     string
	Tokens    func() *access.Tokens // the tokens of the API
	Distrusts bool
	Audit     *slog.Logger // gets a line for each request to a private path; nil for none
}

// The verbs of private paths in audit lines.
const (
	verbBackup = "Backup"
	verbDebug  = "Debug"
)

// NewAdmin returns the handler of the admin listener.
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
		json.NewEncoder(w).Encode(c.Build) // an error means that the client has gone
	})
	if c.Backups != nil {
		mux.Handle("POST /backup", c.private(verbBackup, http.HandlerFunc(c.Backups.serve)))
	}
	if c.Scaler {
		mux.Handle(newScaler(c.Health, c.Metrics))
	}
	debug := http.NewServeMux()
	debug.Handle("GET /debug/vars", expvar.Handler())
	debug.HandleFunc("/debug/pprof/", pprof.Index) // any method: pprof reads symbols by POST
	debug.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	debug.HandleFunc("/debug/pprof/profile", pprof.Profile)
	debug.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	debug.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/", c.private(verbDebug, debug))
	return mux
}
