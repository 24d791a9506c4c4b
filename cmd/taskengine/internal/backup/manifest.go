package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
)

// ManifestName is the file of a backup that names its files.
const ManifestName = "backup.json"

// manifestFormat is the newest format that this program reads, and the one that it writes.
const manifestFormat = 1

// Manifest describes a backup. Without it a missing part of a store in files goes unnoticed: a log
// without its end looks like a log that ends there.
type Manifest struct {
	Format  int       `json:"format"`
	Driver  string    `json:"driver"`
	TakenAt time.Time `json:"taken_at"`
	Tasks   int64     `json:"tasks"`
	Files   []File    `json:"files"`
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ErrNoManifest is the error of a folder that is no backup, or not all of one.
var ErrNoManifest = errors.New("there is no " + ManifestName)

// writeManifest writes the manifest of a folder, which makes it a backup.
func writeManifest(ctx context.Context, folder string, driver config.Driver, made Made) error {
	text, err := json.MarshalIndent(Manifest{
		Format: manifestFormat, Driver: driver.String(), TakenAt: time.Now().UTC().Truncate(time.Second), Tasks: made.Tasks, Files: made.files,
	}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = writeDurably(ctx, filepath.Join(folder, ManifestName), int64(len(text)), strings.NewReader(string(text)))
	return err
}

// ReadManifest reads the manifest of a backup. Without one the error wraps ErrNoManifest.
func ReadManifest(folder string) (*Manifest, error) {
	name := filepath.Join(folder, ManifestName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoManifest, folder)
	}
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; use another backup", name, err)
	}
	_, known := m.driver()
	switch {
	case m.Format > manifestFormat:
		return nil, fmt.Errorf("%s has format %d, this program reads up to %d; use the program that wrote it, or a newer one", name, m.Format, manifestFormat)
	case m.Format < 1, !known, len(m.Files) == 0, slices.ContainsFunc(m.Files, File.strange):
		return nil, fmt.Errorf("%s is damaged: it does not name the files of a store; use another backup", name)
	}
	return &m, nil
}

// strange reports whether a backup does not write files of this name.
func (f File) strange() bool {
	return f.Name == "" || f.Name == ManifestName || strings.ContainsAny(f.Name, `/\`) || !filepath.IsLocal(f.Name)
}

// driver returns the driver of the store that the backup is of, and false if the manifest names none.
func (m *Manifest) driver() (config.Driver, bool) {
	d, ok := stores.Named(m.Driver)
	return d.Of, ok && d.Of.InFiles()
}

// Verify compares the files of a folder with the manifest, and returns an error for each that differs.
// It ignores files that the manifest does not name.
func (m *Manifest) Verify(ctx context.Context, folder string) (wrong []error, err error) {
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

// checkFiles returns an error unless the files of a folder match the manifest.
func (m *Manifest) checkFiles(ctx context.Context, folder string) error {
	wrong, err := m.Verify(ctx, folder)
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("the backup %s is damaged, and nothing was done: %w; use another backup, or copy these files again from the origin of this one",
			folder, allOf(wrong))
	}
	return err
}

// CheckUndamaged returns an error if a folder is a backup and its files have changed. It returns nil
// for a folder that is no backup.
func CheckUndamaged(ctx context.Context, folder string) error {
	m, err := ReadManifest(folder)
	if errors.Is(err, ErrNoManifest) {
		return nil
	}
	if err == nil {
		err = m.checkFiles(ctx, folder)
	}
	if err != nil {
		err = fmt.Errorf("%w; if a node has used this folder since, it is no backup any more: remove its %s", err, ManifestName)
	}
	return err
}

// allOf joins errors into one with a text of one line.
func allOf(wrong []error) error {
	all := wrong[0]
	for _, err := range wrong[1:] {
		all = fmt.Errorf("%w; %w", all, err)
	}
	return all
}

// differs returns an error unless got is the file that was backed up.
func (f File) differs(got File) error {
	switch {
	case got.Size != f.Size:
		return fmt.Errorf("%s has %d bytes instead of %d", f.Name, got.Size, f.Size)
	case got.SHA256 != f.SHA256:
		return fmt.Errorf("%s has other bytes than were written: its SHA-256 is %.16s… instead of %.16s…", f.Name, got.SHA256, f.SHA256)
	}
	return nil
}
