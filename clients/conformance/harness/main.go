// Command harness plays the parts of the conformance cases that runners of all languages
// need: a server that answers by the script of a case, and the callers of a middleware.
// README.md of the folder above describes both.
//
//	harness 127.0.0.1:8082 cases.json
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: harness <address> <cases.json>")
	}
	handler, err := load(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}

// load returns the handler of the cases in a file.
func load(path string) (http.Handler, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	var file struct {
		Cases []struct{ Script script }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := make([]*scripted, len(file.Cases))
	for i := range file.Cases {
		all[i] = newScripted(file.Cases[i].Script)
	}
	of := func(serve func(*scripted, http.ResponseWriter, *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			i, err := strconv.Atoi(r.PathValue("case"))
			if err != nil || i < 0 || i >= len(all) {
				http.Error(w, "there is no such case", http.StatusNotFound)
				return
			}
			serve(all[i], w, r)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cases/{case}/v1/check", of((*scripted).check))
	mux.HandleFunc("POST /cases/{case}/v1/check:batch", of((*scripted).batch))
	mux.HandleFunc("POST /cases/{case}/v1/settle", of((*scripted).settle))
	mux.HandleFunc("POST /cases/{case}/v1/extend", of((*scripted).extend))
	mux.HandleFunc("GET /cases/{case}/seen", of((*scripted).report))
	mux.HandleFunc("POST /send", send)
	return mux, nil
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the runner may have gone
}

// read decodes the body of a request, or answers 400.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}
