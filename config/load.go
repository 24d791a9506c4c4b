package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/taskengine/taskengine/internal/units"
)

// maxFile is how large a configuration may be.
const maxFile = 1 << 20

// Load reads the file at path, applies sets (the arguments of --set, such as
// "node.slots=5", each a path and a value in YAML) and resolves references: ${NAME} calls env,
// ${file:PATH} reads a file. An empty path stands for an empty file in the working folder. The
// error is an *[Errors] if the configuration cannot be used, and another one if the file cannot
// be read. Load reads and tries nothing else: see [Config.Probe].
func Load(path string, sets []string, env func(string) (string, bool)) (*Config, error) {
	src, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return load(src, filepath.Dir(path), sets, env)
}

func load(src *source, folder string, sets []string, env func(string) (string, bool)) (*Config, error) {
	found := &findings{}
	if len(src.text) > maxFile {
		found.add(position{in: src}, "is larger than %s; put less into one file", units.ShowSize(maxFile))
		return nil, found.err()
	}
	tree := parse(src, found)
	if tree == nil {
		tree = &node{at: position{src, 1, 1}}
	}
	if tree = override(tree, sets, false, found); len(found.list) > 0 && tree.kind == nothing {
		return nil, found.err() // the text is not YAML, so there is nothing more to check
	}
	d := &decoder{walker: walker{found: found}, cfg: Default(), folder: folder, env: env}
	d.cfg.tree, d.cfg.TaskLog.Path = tree, "" // which depends on storage.path
	root.decode(d, tree, d.cfg)
	d.check()
	d.resolvePaths()
	if err := found.err(); err != nil {
		return nil, err
	}
	return d.cfg, nil
}

func read(path string) (*source, error) {
	if path == "" {
		return &source{name: "(no file)"}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return &source{name: path, text: string(content)}, nil
}

// resolvePaths makes the paths of the file valid for this process.
func (d *decoder) resolvePaths() {
	c := d.cfg
	c.TaskLog.Path = d.within(cmp.Or(c.TaskLog.Path, filepath.Join(c.Storage.Path, taskLogFolder)))
	c.Storage.Path = d.within(c.Storage.Path)
	for _, file := range c.Coordination.TLS.files() {
		if *file != "" {
			*file = d.within(*file)
		}
	}
	for name, k := range c.Kafka {
		for _, file := range k.TLS.files() {
			if *file != "" {
				*file = d.within(*file)
			}
		}
		c.Kafka[name] = k
	}
	for _, l := range []*Listener{&c.API, &c.Admin} {
		for _, file := range []*string{&l.TLS.Cert, &l.TLS.Key, &l.TLS.ClientCA, &l.Tokens} {
			if *file != "" {
				*file = d.within(*file)
			}
		}
	}
	for _, file := range c.API.PeerTLS.files() {
		if *file != "" {
			*file = d.within(*file)
		}
	}
	if c.API.Audit != "" && c.API.Audit != AuditInLog {
		c.API.Audit = d.within(c.API.Audit)
	}
	if c.Storage.Driver == Postgres {
		c.Storage.Path = ""
	}
	if c.UI.Plan != "" {
		c.UI.Plan = d.within(c.UI.Plan)
	}
	d.alertPaths()
	for _, h := range c.Handlers {
		switch {
		case h.Plugin != nil:
			h.Plugin.Dir = d.within(h.Plugin.Dir)
			d.program(h.Plugin.Command)
			pinned := make(map[string]string, len(h.Plugin.SHA256))
			for path, sum := range h.Plugin.SHA256 {
				pinned[d.within(path)] = sum
			}
			h.Plugin.SHA256 = pinned
		case h.Exec != nil:
			h.Exec.Dir = d.within(h.Exec.Dir)
			d.program(h.Exec.Command)
		}
	}
}

// alertPaths makes the paths of targets of alerts valid for this process.
func (d *decoder) alertPaths() {
	for _, t := range d.cfg.Alerts.Targets {
		if t.Exec != nil {
			t.Exec.Dir = d.within(t.Exec.Dir)
			d.program(t.Exec.Command)
		}
	}
}

// program makes the first word of a command absolute if it is a path: a relative path would be
// relative to the folder of the command.
func (d *decoder) program(command []string) {
	if len(command) == 0 || !strings.ContainsRune(command[0], '/') {
		return
	}
	command[0] = d.within(command[0])
	if abs, err := filepath.Abs(command[0]); err == nil {
		command[0] = abs
	}
}
