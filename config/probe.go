package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/tlsfiles"
)

// Probe returns what this machine lacks for the configuration: missing programs, folders that are missing or cannot be
// written, unusable certificates and tokens. It does not connect to databases, and leaves nothing behind. The result is
// advice: the machine may change at any time.
func (c *Config) Probe() []Problem {
	p := prober{tree: c.written()}
	if c.Storage.Driver.InFiles() {
		p.folder(c.Storage.Path, "storage", "path")
	}
	elsewhere := c.Storage.Driver == Postgres || p.tree.find("task_log").child("path") != nil
	if c.Storage.Driver != Memory && c.TaskLog.MaxSize > 0 && !c.TaskLog.InStore && elsewhere {
		p.folder(c.TaskLog.Path, "task_log", "path")
	}
	p.readable(c.Coordination.TLS.named(), "coordination", "tls")
	p.readable(c.API.PeerTLS.named(), "api", "peer_tls")
	if c.UI.OIDC != nil {
		p.readable(c.UI.OIDC.TLS.named(), "ui", "oidc", "tls")
	}
	for name, k := range c.Kafka {
		p.readable(k.TLS.named(), "kafka", name, "tls")
	}
	p.server(c.API.TLS, "api", "tls")
	p.server(c.Admin.TLS, "admin", "tls")
	if c.API.Audit != "" && c.API.Audit != AuditInLog {
		p.folder(filepath.Dir(c.API.Audit), "api", "audit")
	}
	if c.API.Tokens != "" {
		if _, err := access.Read(c.API.Tokens); err != nil {
			p.add(fmt.Errorf("%w; taskengine token create makes such a file", err), "api", "tokens")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		switch h := c.Handlers[name]; {
		case h.Plugin != nil:
			p.command(h.Plugin.Command, h.Plugin.Dir, "plugin", "handlers", name)
		case h.Exec != nil:
			p.command(h.Exec.Command, h.Exec.Dir, "exec", "handlers", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Alerts.Targets)) {
		if e := c.Alerts.Targets[name].Exec; e != nil {
			p.command(e.Command, e.Dir, "command", "alerts", "targets", name, "exec")
		}
	}
	return p.found.problems()
}

// ProblemAt returns a problem with the value at a path, such as "storage", "url", or with its
// nearest parent if there is no value. It is for checks that Probe does not make.
func (c *Config) ProblemAt(text string, path ...string) Problem {
	at := c.written().locate(path)
	return at.in.problem(at.line, at.column, joinPath(path)+": "+text)
}

// written returns the tree of the file.
func (c *Config) written() *node {
	if c.tree == nil {
		return &node{at: position{in: &source{name: "(defaults)"}}}
	}
	return c.tree
}

type prober struct {
	tree  *node
	found findings
}

func (p *prober) add(err error, path ...string) {
	p.found.add(p.tree.locate(path), "%s: %v", joinPath(path), err)
}

func (p *prober) folder(folder string, path ...string) {
	if err := writable(folder); err != nil {
		p.add(err, path...)
	}
}

// command looks for the program of a command, and for its folder. The command is at key below path.
func (p *prober) command(command []string, dir, key string, path ...string) {
	below := func(keys ...string) []string { return slices.Concat(path, keys) }
	if info, err := os.Stat(dir); err != nil {
		p.add(fmt.Errorf("%w; make the folder or correct the path", err), below("dir")...)
	} else if !info.IsDir() {
		p.add(fmt.Errorf("%s is not a folder; correct the path", dir), below("dir")...)
	}
	if len(command) == 0 {
		return
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		p.add(fmt.Errorf("%w; install the program, or write its path with a slash", err), below(key, "0")...)
	}
}

// readable looks for files, by their keys below path, and reports whether all of them can be read. An empty path of a
// file is not looked for.
func (p *prober) readable(files map[string]string, path ...string) bool {
	all := true
	for key, file := range files {
		if file == "" {
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			all = false
			p.add(fmt.Errorf("%w; correct the path or the rights of the file", err), append(slices.Clone(path), key)...)
			continue
		}
		_ = f.Close() // nothing was written
	}
	return all
}

// server reads the certificates of a listener.
func (p *prober) server(t ServerTLS, path ...string) {
	if !p.readable(map[string]string{"cert": t.Cert, "key": t.Key, "client_ca": t.ClientCA}, path...) || t.Cert == "" {
		return
	}
	below := func(key string) []string { return append(slices.Clone(path), key) }
	if pair, err := tlsfiles.Pair(t.Cert, t.Key); err != nil {
		p.add(err, below("cert")...)
	} else if until := pair.Leaf.NotAfter; time.Now().After(until) {
		p.add(fmt.Errorf("the certificate has expired at %s, and clients refuse it; replace the file", until.Format(time.RFC3339)), below("cert")...)
	}
	if t.ClientCA != "" {
		if _, err := tlsfiles.Authorities(t.ClientCA); err != nil {
			p.add(err, below("client_ca")...)
		}
	}
}

// writable tries to write into the folder, or into its nearest parent that exists.
func writable(folder string) error {
	for at := folder; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w; correct the path or the rights", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder; correct the path", at)
		}
		f, err := os.CreateTemp(at, ".taskengine-probe-*")
		if err != nil {
			return fmt.Errorf("%s cannot be written: %w; correct the rights, or choose another folder", at, err)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}
