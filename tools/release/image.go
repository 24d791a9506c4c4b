package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// image is an image for containers: the program and what it needs, and nothing else.
type image struct {
	platform
	version   string
	commit    string
	date      time.Time
	program   []byte
	documents []file
	level     int // of the compression
}

// user is the number of the user and the group as which the program runs in a container.
const user = 65532

const (
	programPath = "/usr/local/bin/" + program
	configPath  = "/etc/" + program + "/" + program + ".yaml"
	dataPath    = "/var/lib/" + program
)

// write writes the image as an archive that docker, podman and skopeo load: an OCI layout, with the file of older versions
// of docker beside it.
func (i *image) write(w io.Writer) error {
	files, err := i.files()
	if err != nil {
		return err
	}
	var plain, layer bytes.Buffer
	if err := writeTar(&plain, files, i.date); err != nil {
		return err
	}
	if err := writeArchive(&layer, files, i.date, i.level); err != nil {
		return err
	}
	config, err := json.Marshal(i.config(digest(plain.Bytes())))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(ociManifest{
		Schema: 2, Type: "application/vnd.oci.image.manifest.v1+json",
		Config:      descriptorOf("application/vnd.oci.image.config.v1+json", config),
		Layers:      []descriptor{descriptorOf("application/vnd.oci.image.layer.v1.tar+gzip", layer.Bytes())},
		Annotations: i.annotations(),
	})
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(i.version, "v")
	entry := descriptorOf("application/vnd.oci.image.manifest.v1+json", manifest)
	entry.Platform = &ociPlatform{i.architecture, i.system}
	entry.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": number,
		"io.containerd.image.name":          program + ":" + number,
	}
	index, err := json.Marshal(ociIndex{Schema: 2, Type: "application/vnd.oci.image.index.v1+json", Manifests: []descriptor{entry}})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]dockerManifest{{
		Config: blobPath(config), Tags: []string{program + ":" + number}, Layers: []string{blobPath(layer.Bytes())},
	}})
	if err != nil {
		return err
	}
	return writeTar(w, []file{
		{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, content: index},
		{name: "manifest.json", mode: 0o644, content: docker},
		{name: "blobs/", mode: 0o755},
		{name: "blobs/sha256/", mode: 0o755},
		{name: blobPath(manifest), mode: 0o644, content: manifest},
		{name: blobPath(config), mode: 0o644, content: config},
		{name: blobPath(layer.Bytes()), mode: 0o644, content: layer.Bytes()},
	}, i.date)
}

// files are the files in a container. The time zones are in the program.
func (i *image) files() ([]file, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	account := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\n%s:x:%d:%d::%s:/sbin/nologin\n", program, user, user, dataPath)
	group := fmt.Sprintf("root:x:0:\n%s:x:%d:\n", program, user)
	all := []file{
		{name: "etc/passwd", mode: 0o644, content: []byte(account)},
		{name: "etc/group", mode: 0o644, content: []byte(group)},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots},
		{name: path.Dir(configPath)[1:] + "/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: programPath[1:], mode: 0o755, content: i.program},
		{name: dataPath[1:] + "/", mode: 0o750, owner: user},
	}
	for _, d := range i.documents {
		d.name = "usr/share/doc/" + program + "/" + d.name
		all = append(all, d)
	}
	return withFolders(all), nil
}

// withFolders adds the folders above files, each before the first file in it.
func withFolders(files []file) (all []file) {
	made := make(map[string]bool)
	for _, f := range files {
		for at, c := range f.name {
			if folder := f.name[:at+1]; c == '/' && at < len(f.name)-1 && !made[folder] {
				made[folder] = true
				all = append(all, file{name: folder, mode: 0o755})
			}
		}
		made[f.name] = true
		all = append(all, f)
	}
	return all
}

// config is how a container of the image runs.
func (i *image) config(layer string) ociConfig {
	return ociConfig{
		Created: i.date.Format(time.RFC3339), Architecture: i.architecture, System: i.system,
		Config: ociRun{
			User: fmt.Sprintf("%d:%d", user, user), Ports: map[string]struct{}{"7420/tcp": {}, "7421/tcp": {}},
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{programPath}, Command: []string{"run", "--config", configPath},
			Volumes: map[string]struct{}{dataPath: {}}, Folder: dataPath, Labels: i.annotations(), StopSignal: "SIGTERM",
			Health: &dockerHealth{
				Test:     []string{"CMD", programPath, "health", "--live", "--config", configPath},
				Interval: 10 * time.Second, Timeout: 5 * time.Second, Start: 30 * time.Second, Retries: 3,
			},
		},
		Root:    ociRoot{Type: "layers", Layers: []string{layer}},
		History: []ociHistory{{Created: i.date.Format(time.RFC3339), By: "make release VERSION=" + i.version}},
	}
}

func (i *image) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    program,
		"org.opencontainers.image.version":  strings.TrimPrefix(i.version, "v"),
		"org.opencontainers.image.revision": i.commit,
		"org.opencontainers.image.created":  i.date.Format(time.RFC3339),
		"org.opencontainers.image.source":   "https://" + module,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// digest names content by its checksum.
func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// blobPath is where content is in the archive of an image.
func blobPath(content []byte) string {
	return "blobs/" + strings.Replace(digest(content), ":", "/", 1)
}

// packProgram writes an image of a program that exists, without licences, with the date 0.
func packProgram(to, from string, p platform) error {
	binary, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	i := image{platform: p, version: "v0.0.0-local", date: time.Unix(0, 0).UTC(), program: binary, level: gzip.BestSpeed}
	return writeFile(to, func(w *os.File) error { return i.write(w) })
}
