// Package deploy_test checks the files that are rendered from the Helm chart. The module tools/chart renders them.
package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
)

// secretsFolder is where pods have their secrets.
const secretsFolder = "/run/secrets/taskengine"

func TestTheRenderedFilesAreNewerThanTheChart(t *testing.T) {
	sum := checksum(t)
	for path, text := range renderedFiles(t) {
		if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, sum) {
			t.Errorf("the chart, or its values, has changed since %s was written: run make chart", path)
		}
	}
}

func TestANodeTakesTheConfigurationsOfTheChart(t *testing.T) {
	for path, text := range renderedFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			folder := t.TempDir()
			if err := os.MkdirAll(filepath.Join(folder, "database"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "database", "url"), []byte("postgres://taskengine:secret@db/tasks\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "taskengine.yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(configOf(t, text), secretsFolder, folder)), 0o600); err != nil {
				t.Fatal(err)
			}
			var c *config.Config
			for _, ip := range []string{"10.0.0.7", "fd00::7"} {
				var err error
				c, err = config.Load(file, nil, func(name string) (string, bool) {
					return strings.ReplaceAll(advertise(text), "$(POD_IP)", ip), name == "TASKENGINE_ADVERTISE"
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := net.SplitHostPort(c.API.Advertise); c.API.Advertise != "" && err != nil {
					t.Errorf("the pod with the address %s says %q to other nodes: %v", ip, c.API.Advertise, err)
				}
			}
			for _, tokens := range []string{c.API.Tokens, c.API.TLS.Cert, c.API.TLS.ClientCA, c.Admin.TLS.Cert} {
				if tokens != "" && !strings.HasPrefix(tokens, folder) {
					t.Errorf("the node expects %s, which is no secret of the pod", tokens)
				}
			}
			checkStop(t, text, c)
		})
	}
}

// advertise returns the variable TASKENGINE_ADVERTISE of the pods of a rendered file.
func advertise(text string) string {
	_, after, _ := strings.Cut(text, "- name: TASKENGINE_ADVERTISE\n")
	line, _, _ := strings.Cut(after, "\n")
	value, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "value: "), " #")
	return strings.Trim(value, `"`)
}

// checkStop reports if a node is killed while its tasks may still end.
func checkStop(t *testing.T, text string, c *config.Config) {
	t.Helper()
	found := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)\n`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the pods have no time to stop")
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	grace := 10 * time.Second
	for _, typ := range c.Types {
		grace = max(grace, typ.Timeout.Grace)
	}
	if has, needs := time.Duration(seconds)*time.Second, c.Node.DrainTimeout+grace+10*time.Second; has < needs {
		t.Errorf("the pods have %v to stop, and the node needs up to %v", has, needs)
	}
}

// renderedFiles returns the files that are rendered from the chart, by their paths.
func renderedFiles(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"kubernetes/*.yaml", "rendered/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) < 2 {
			t.Fatal("there are too few rendered files", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	return all
}

// configOf returns the taskengine.yaml in the ConfigMap of a rendered file.
func configOf(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n  taskengine.yaml: |\n")
	if !ok {
		t.Fatal("there is no taskengine.yaml")
	}
	var b strings.Builder
	for line := range strings.Lines(rest) {
		own, ok := strings.CutPrefix(line, "    ")
		if !ok {
			break
		}
		b.WriteString(own)
	}
	return b.String()
}

// checksum returns the checksum of the files of the chart and of the values, as render_test.go of tools/chart computes it.
func checksum(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, folder := range []string{"helm/taskengine", "../tools/chart/testdata"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			name, _ := filepath.Rel(folder, path)
			fmt.Fprintf(&all, "%s %x\n", filepath.ToSlash(name), sha256.Sum256(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%.12x", sha256.Sum256(all.Bytes()))
}
