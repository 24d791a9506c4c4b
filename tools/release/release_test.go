package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var date = time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)

// made returns what a function writes.
func made(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked returns the files of an archive by their names, and the names in order.
func unpacked(t *testing.T, archive []byte) (files map[string]*tar.Header, content map[string][]byte, names []string) {
	t.Helper()
	files, content = make(map[string]*tar.Header), make(map[string][]byte)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, content, names
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name] != nil {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		if files[h.Name], names = h, append(names, h.Name); !h.ModTime.Equal(date) {
			t.Errorf("%s is of %v, not of the date of the commit", h.Name, h.ModTime)
		}
		if content[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func plain(t *testing.T, compressed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestArchivesAndImagesAreTheSameEachTime(t *testing.T) {
	i := image{platform: platform{"linux", "arm64"}, version: "v1.2.3", commit: "c0ffee", date: date, program: []byte("program"), level: gzip.BestSpeed}
	for name, write := range map[string]func(io.Writer) error{
		"archive": func(w io.Writer) error {
			return writeArchive(w, []file{{name: "a", mode: 0o755, content: []byte("x")}, {name: "b", mode: 0o644}}, date, gzip.BestSpeed)
		},
		"image": i.write,
	} {
		if !bytes.Equal(made(t, write), made(t, write)) {
			t.Errorf("the %s was made twice and differs", name)
		}
	}
}

func TestAnArchiveKeepsTheOrderAndTheModesAndNoUser(t *testing.T) {
	archive := made(t, func(w io.Writer) error {
		return writeArchive(w, []file{{name: "z", mode: 0o755, content: []byte("x")}, {name: "LICENSE", mode: 0o644}}, date, gzip.BestSpeed)
	})
	files, content, names := unpacked(t, plain(t, archive))
	if !slices.Equal(names, []string{"z", "LICENSE"}) || string(content["z"]) != "x" {
		t.Errorf("the archive has %v", names)
	}
	if h := files["z"]; h.Mode != 0o755 || h.Uid != 0 || h.Uname != "" {
		t.Errorf("the header is %+v", h)
	}
}

// The test follows the image as a runtime does, from the index to the files.
func TestAnImageHasThePartsThatItsDocumentsName(t *testing.T) {
	i := image{
		platform: platform{"linux", "arm64"}, version: "v1.2.3", commit: "c0ffee", date: date, program: []byte("program"), level: gzip.BestSpeed,
		documents: []file{{name: "LICENSE", mode: 0o644, content: []byte("licence")}},
	}
	_, blobs, _ := unpacked(t, made(t, i.write))
	blob := func(d descriptor) []byte {
		content := blobs["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if digest(content) != d.Digest || len(content) != d.Size {
			t.Fatalf("%s has %d bytes and the digest %s, want %d bytes", d.Digest, len(content), digest(content), d.Size)
		}
		return content
	}
	var index ociIndex
	var manifest ociManifest
	var config ociConfig
	var docker []dockerManifest
	read := func(text []byte, to any) {
		if err := json.Unmarshal(text, to); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	read(blobs["index.json"], &index)
	if p := index.Manifests[0].Platform; p.Architecture != "arm64" || p.System != "linux" {
		t.Errorf("the platform is %+v", p)
	}
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	read(blobs["manifest.json"], &docker)
	if d := docker[0]; !bytes.Equal(blobs[d.Config], blob(manifest.Config)) || !bytes.Equal(blobs[d.Layers[0]], blob(manifest.Layers[0])) || d.Tags[0] != "taskengine:1.2.3" {
		t.Errorf("the manifest for older versions of docker is %+v", d)
	}
	layer := plain(t, blob(manifest.Layers[0]))
	if !slices.Equal(config.Root.Layers, []string{digest(layer)}) {
		t.Errorf("the layers are %v, want %s", config.Root.Layers, digest(layer))
	}
	files, content, names := unpacked(t, layer)
	for at, name := range names {
		if dir := filepath.Dir(strings.TrimSuffix(name, "/")); dir != "." && !slices.Contains(names[:at], dir+"/") {
			t.Errorf("%s is in the layer before its folder", name)
		}
	}
	c := config.Config
	if program := c.Entrypoint[0][1:]; string(content[program]) != "program" || files[program].Mode != 0o755 {
		t.Errorf("the layer has %v, and starts %s", names, program)
	}
	if h := files[c.Folder[1:]+"/"]; c.User != "65532:65532" || h.Uid != 65532 || h.Mode != 0o750 {
		t.Errorf("the user %s works in %+v", c.User, h)
	}
	if string(content["usr/share/doc/taskengine/LICENSE"]) != "licence" {
		t.Error("the layer has no licence")
	}
}

func TestAContainerTrustsTheAuthoritiesOfMozilla(t *testing.T) {
	rest, err := authorities()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 50 {
		t.Errorf("there are %d authorities", n)
	}
}

func TestABillNamesTheModulesOfAProgram(t *testing.T) {
	self, err := os.Executable() // made by Go, of the module of these tools
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{version: "v1.2.3", date: date}
	text, err := billOf(self, []byte("program"), r, platform{"linux", "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	own := b.Metadata.Component
	if own.Package != "pkg:golang/github.com/taskengine/taskengine@v1.2.3?goarch=amd64&goos=linux" || own.Hashes[0].Content != digest([]byte("program"))[len("sha256:"):] {
		t.Errorf("the program is %+v", own)
	}
	named := func(name string) bool {
		return slices.ContainsFunc(b.Components, func(c component) bool { return c.Name == name && strings.HasPrefix(c.Package, "pkg:golang/"+name+"@") })
	}
	if !named("golang.org/x/crypto/x509roots/fallback") || !named("std") {
		t.Errorf("the components are %+v", b.Components)
	}
	refs := make(map[string]bool)
	for _, d := range b.Dependencies {
		if refs[d.Ref] {
			t.Errorf("%s has its dependencies twice", d.Ref)
		}
		refs[d.Ref] = true
	}
	if !refs[own.Ref] || len(refs) != len(b.Components)+1 {
		t.Errorf("there are %d dependencies of %d components", len(refs), len(b.Components))
	}
	if got := packageURL("github.com/DataDog/zstd", "v1.0.0+incompatible"); got != "pkg:golang/github.com/datadog/zstd@v1.0.0%2Bincompatible" {
		t.Errorf("the package URL is %s", got)
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	const log = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [1.2.3] - 2026-12-24\n\n### Added\n\n- this ([states](docs/states.md#a), [Go](https://go.dev))\n\n## [1.2.2]\n\n- old\n"
	for version, want := range map[string]string{
		"v1.2.3":      "# taskengine v1.2.3\n\n### Added\n\n- this ([states](https://github.com/taskengine/taskengine/blob/v1.2.3/docs/states.md#a), [Go](https://go.dev))\n",
		"v1.3.0-rc.1": "# taskengine v1.3.0-rc.1\n\n- next\n",
	} {
		if got, err := notesOf(log, version); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if got, err := notesOf(log, "v1.3.0"); err == nil || !strings.Contains(err.Error(), "## [1.3.0]") {
		t.Errorf("a version without a section: %q, %v", got, err)
	}
}

// The bytes depend on nothing but the commit and Go if the compiler hides the folder, takes the version from the
// repository, and has no settings of the user. `make release-check` shows that they do not.
func TestTheCompilerGetsNoSettingsOfTheUser(t *testing.T) {
	args := buildArguments("out")
	for _, want := range []string{"-trimpath", "-buildvcs=true", "-ldflags=-s -w"} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among the arguments %q", want, args)
		}
	}
	cmd := exec.Command("go", "env", "GOFLAGS", "CGO_ENABLED", "GOOS", "GOARCH", "GOARM64", "GOAMD64", "GOEXPERIMENT")
	of := filepath.Join(t.TempDir(), "env")
	write(t, of, "GOFLAGS=-tags=mine\nGOPROXY=https://proxy.example\n")
	env, err := buildEnvironment(append(os.Environ(), "GOENV="+of, "CGO_ENABLED=1", "GOAMD64=v3", "GOPROXY="), "", platform{"darwin", "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(env, "GOPROXY=https://proxy.example") {
		t.Errorf("the environment lacks the proxy of the user: %q", env)
	}
	cmd.Env = env
	if out, err := cmd.Output(); err != nil || string(out) != "\n0\ndarwin\narm64\nv8.0\nv1\n\n" {
		t.Errorf("the settings are %q, %v", out, err)
	}
}
