package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/config"
)

// openAudit opens the audit log that the configuration names; nil if it names none.
func (p *parts) openAudit() (*slog.Logger, error) {
	switch path := p.node.Config.API.Audit; path {
	case "":
		return nil, nil
	case config.AuditInLog:
		return p.node.Log, nil
	default:
		f := &auditFile{path: path, log: p.node.Log}
		if err := f.open(); err != nil {
			return nil, fmt.Errorf("api.audit: %w; correct the path or the rights", err)
		}
		p.add("the audit log", func(context.Context) error { return f.close() })
		return slog.New(slog.NewJSONHandler(f, nil)), nil
	}
}

// auditFile is a file of audit lines, which each write appends to. When the file was renamed or removed, the next line
// goes to a new one. A line that cannot be written goes to the log of the node.
type auditFile struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// open opens the file, and closes the one before. The caller has the mutex, or is the only one that knows f.
func (f *auditFile) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // each line was written by a call of its own
	}
	f.file = file
	return nil
}

// Write implements [io.Writer].
func (f *auditFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.follow()
	if err == nil {
		_, err = f.file.Write(line)
	}
	if err != nil {
		f.log.Error("an audit line cannot be written to its file", "file", f.path, "error", err, "line", strings.TrimSpace(string(line)))
	}
	return len(line), nil // nothing more can be done
}

// follow opens the file again if another one, or none, has its path.
func (f *auditFile) follow() error {
	now, err := os.Stat(f.path)
	if err == nil {
		own, err := f.file.Stat()
		if err == nil && os.SameFile(now, own) {
			return nil
		}
	}
	return f.open()
}

func (f *auditFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
