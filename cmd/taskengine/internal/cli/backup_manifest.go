package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/config"
)

// manifestName is the file of a backup that says what belongs to it.
const manifestName = "backup.json"

// manifestFormat is the newest that this program reads, and the one it writes.
const manifestFormat = 1

// manifest is what a backup says about itself. A store in files cannot tell what is missing:
// the end of a log that is not there looks like a log that ends.
type manifest struct {
	Format  int            `json:"format"`
	Driver  string         `json:"driver"`
	TakenAt time.Time      `json:"taken_at"`
	Tasks   int64          `json:"tasks"`
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// errNoManifest says that a folder is no backup, or not all of one.
var errNoManifest = errors.New("there is no " + manifestName)

// writeManifest has a folder say what it is; from then on it is a backup.
func writeManifest(ctx context.Context, folder string, driver config.Driver, made madeStore) error {
	text, err := json.MarshalIndent(manifest{
		Format: manifestFormat, Driver: embedded(driver), TakenAt: time.Now().UTC().Truncate(time.Second), Tasks: made.tasks, Files: made.files,
	}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = writeDurably(ctx, filepath.Join(folder, manifestName), int64(len(text)), strings.NewReader(string(text)))
	return err
}

// readManifest reads what a backup says about itself. Without that, the error wraps
// errNoManifest.
func readManifest(folder string) (*manifest, error) {
	name := filepath.Join(folder, manifestName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", errNoManifest, folder)
	}
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; use another backup", name, err)
	}
	switch {
	case m.Format > manifestFormat:
		return nil, fmt.Errorf("%s has format %d, this program reads up to %d; use the program that wrote it, or a newer one", name, m.Format, manifestFormat)
	case m.Format < 1, m.Driver != embedded(m.driver()), len(m.Files) == 0, slices.ContainsFunc(m.Files, manifestFile.strange):
		return nil, fmt.Errorf("%s is damaged: it does not name the files of a store; use another backup", name)
	}
	return &m, nil
}

// strange reports whether f is none of the files that a backup writes.
func (f manifestFile) strange() bool {
	return f.Name == "" || f.Name == manifestName || strings.ContainsAny(f.Name, `/\`) || !filepath.IsLocal(f.Name)
}

func (m *manifest) driver() config.Driver {
	if m.Driver == embedded(config.Bolt) {
		return config.Bolt
	}
	return config.Pebble
}

// verify holds the files of a folder against those of the manifest, and returns what is
// wrong with each. Files that are not named in it are not looked at.
func (m *manifest) verify(ctx context.Context, folder string) (wrong []error, err error) {
	for _, want := range m.Files {
		got, err := measureFile(ctx, filepath.Join(folder, want.Name))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is missing", want.Name)
		}
		if err = cmp.Or(err, want.differs(got)); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong, nil
}

// checkFiles returns an error unless the files of a folder are those of the manifest.
func (m *manifest) checkFiles(ctx context.Context, folder string) error {
	wrong, err := m.verify(ctx, folder)
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("the backup %s is damaged, and nothing was done: %w; use another backup, or copy these files anew from where this one came from",
			folder, allOf(wrong))
	}
	return err
}

// refuseDamagedBackup returns an error if a folder is a backup that is not as it was written.
func refuseDamagedBackup(ctx context.Context, folder string) error {
	m, err := readManifest(folder)
	if errors.Is(err, errNoManifest) {
		return nil
	}
	if err == nil {
		err = m.checkFiles(ctx, folder)
	}
	if err != nil {
		err = fmt.Errorf("%w; if a node has used this folder since, it is no backup any more: remove its %s", err, manifestName)
	}
	return err
}

// allOf returns what is wrong with several files in one line.
func allOf(wrong []error) error {
	all := wrong[0]
	for _, err := range wrong[1:] {
		all = fmt.Errorf("%w; %w", all, err)
	}
	return all
}

// differs returns an error unless a file is the one that was backed up.
func (f manifestFile) differs(got manifestFile) error {
	switch {
	case got.Size != f.Size:
		return fmt.Errorf("%s has %d bytes instead of %d", f.Name, got.Size, f.Size)
	case got.SHA256 != f.SHA256:
		return fmt.Errorf("%s has other bytes than were written: its SHA-256 is %.16s… instead of %.16s…", f.Name, got.SHA256, f.SHA256)
	}
	return nil
}

func measureFile(ctx context.Context, name string) (got manifestFile, err error) {
	err = handOver(name, func(name string, _ int64, content io.Reader) error {
		got, err = copyMeasured(ctx, io.Discard, name, content)
		return err
	})
	return got, err
}

// copyMeasured copies a file, and returns what a manifest says of it.
func copyMeasured(ctx context.Context, to io.Writer, name string, content io.Reader) (manifestFile, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), readerOf(ctx, content))
	return manifestFile{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// examineBackup looks whether a store in files that is a backup is still as it was written.
func examineBackup(ctx context.Context, found *findings, folder string) (*manifest, error) {
	const why = "tasks may be missing that were in the backup, or be changed, and nothing else tells"
	m, err := readManifest(folder)
	if errors.Is(err, errNoManifest) {
		return nil, nil
	}
	if err != nil {
		found.add(isError, "backup", err.Error(), why, "use another backup")
		return nil, nil
	}
	wrong, err := m.verify(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, err := range wrong {
		found.add(isError, "backup", err.Error(), why,
			"use another backup; if a node has used this folder since, it is no backup any more: remove its "+manifestName)
	}
	if len(wrong) == 0 {
		found.info("backup", "of %v, with %d tasks: its %d files are as they were written", m.TakenAt, m.Tasks, len(m.Files))
	}
	return m, nil
}
