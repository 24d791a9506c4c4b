package main

import "time"

// The documents of an image, as https://github.com/opencontainers/image-spec describes them.
type (
	ociIndex struct {
		Schema    int          `json:"schemaVersion"`
		Type      string       `json:"mediaType"`
		Manifests []descriptor `json:"manifests"`
	}
	ociManifest struct {
		Schema      int               `json:"schemaVersion"`
		Type        string            `json:"mediaType"`
		Config      descriptor        `json:"config"`
		Layers      []descriptor      `json:"layers"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	descriptor struct {
		Type        string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Platform    *ociPlatform      `json:"platform,omitempty"`
	}
	ociPlatform struct {
		Architecture string `json:"architecture"`
		System       string `json:"os"`
	}
	ociConfig struct {
		Created      string       `json:"created"`
		Architecture string       `json:"architecture"`
		System       string       `json:"os"`
		Config       ociRun       `json:"config"`
		Root         ociRoot      `json:"rootfs"`
		History      []ociHistory `json:"history"`
	}
	ociRun struct {
		User       string
		Ports      map[string]struct{} `json:"ExposedPorts"`
		Env        []string
		Entrypoint []string
		Command    []string `json:"Cmd"`
		Volumes    map[string]struct{}
		Folder     string `json:"WorkingDir"`
		Labels     map[string]string
		StopSignal string
		Health     *dockerHealth `json:"Healthcheck"`
	}
	ociRoot struct {
		Type   string   `json:"type"`
		Layers []string `json:"diff_ids"`
	}
	ociHistory struct {
		Created string `json:"created"`
		By      string `json:"created_by"`
	}
)

// dockerHealth is what docker and podman add to the configuration of an image.
type dockerHealth struct {
	Test     []string
	Interval time.Duration
	Timeout  time.Duration
	Start    time.Duration `json:"StartPeriod"`
	Retries  int
}

// dockerManifest is the file manifest.json, which versions of docker before 25 read.
type dockerManifest struct {
	Config string
	Tags   []string `json:"RepoTags"`
	Layers []string
}

func descriptorOf(mediaType string, content []byte) descriptor {
	return descriptor{Type: mediaType, Digest: digest(content), Size: len(content)}
}
