// Command sbom writes the software bill of materials of a binary as CycloneDX JSON:
// Go, the modules that the binary records, and the packages of the web console in it.
//
//	go run -C tools ./sbom ../bin/fluxgate 1.2.3 ../fluxgate.cdx.json
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"log"
	"os"
	"regexp"
	"strings"
)

// document is the part of CycloneDX 1.5 that we write. It has no time and no serial
// number, so that two builds give the same file.
type document struct {
	Format      string `json:"bomFormat"`
	SpecVersion string `json:"specVersion"`
	Version     int    `json:"version"`
	Metadata    struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: sbom BINARY VERSION FILE")
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	packages, err := os.ReadFile("../console/dist/licences.txt")
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.MarshalIndent(describe(info, os.Args[2], string(packages)), "", "  ")
	if err == nil {
		err = os.WriteFile(os.Args[3], append(text, '\n'), 0o644) //nolint:gosec // for everyone to read
	}
	if err != nil {
		log.Fatal(err)
	}
}

// consolePackage is the heading of a package in the licences of the console.
var consolePackage = regexp.MustCompile(`(?m)^(@?[a-z0-9./_-]+) (\d+\.\d+\.\d+\S*): \S`)

func describe(info *buildinfo.BuildInfo, version, packages string) document {
	d := document{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	d.Metadata.Component = newComponent("golang", info.Main.Path, "v"+version)
	d.Metadata.Component.Type = "application"
	d.Components = []component{newComponent("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, newComponent("golang", m.Path, m.Version))
	}
	for _, p := range consolePackage.FindAllStringSubmatch(packages, -1) {
		d.Components = append(d.Components, newComponent("npm", p[1], p[2]))
	}
	return d
}

func newComponent(kind, name, version string) component {
	purl := "pkg:" + kind + "/" + strings.ReplaceAll(name, "@", "%40") + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl}
}
