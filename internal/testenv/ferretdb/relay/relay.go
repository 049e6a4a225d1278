// Package relay hands the commands of many MongoDB clients to a server one at
// a time.
//
// MongoDB promises that an update of one document happens at once: the filter
// is looked at and the change is made without anybody in between. FerretDB v1
// reads, compares and writes in three steps, so that of two compare-and-sets
// at the same time both would win. One command at a time gives the promise
// back, and nothing else about the server changes.
package relay

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	headerLength = 16       // of every message of the wire protocol
	maxMessage   = 64 << 20 // MongoDB itself stops at 48 MB
)

// Serve takes clients from the listener to the server until the listener ends.
func Serve(listener net.Listener, server string) error {
	var turn sync.Mutex
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = client.Close() }()
			_ = serve(client, server, &turn) // either end went away
		}()
	}
}

func serve(client net.Conn, server string, turn *sync.Mutex) error {
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return err
	}
	defer func() { _ = upstream.Close() }()
	for {
		request, err := readMessage(client)
		if err != nil {
			return err
		}
		reply, err := ask(upstream, request, turn)
		if err != nil {
			return err
		}
		if _, err := client.Write(reply); err != nil {
			return err
		}
	}
}

// ask sends a request and waits for its reply while nobody else may. A request
// that wants no reply gets none.
func ask(upstream net.Conn, request []byte, turn *sync.Mutex) ([]byte, error) {
	turn.Lock()
	defer turn.Unlock()
	if _, err := upstream.Write(request); err != nil {
		return nil, err
	}
	if wantsNoReply(request) {
		return nil, nil
	}
	return readMessage(upstream)
}

// readMessage reads one message, which begins with its own length.
func readMessage(from io.Reader) ([]byte, error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length < headerLength || length > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := make([]byte, length)
	copy(message, header[:])
	_, err := io.ReadFull(from, message[headerLength:])
	return message, err
}

// wantsNoReply reports the moreToCome flag of an OP_MSG.
func wantsNoReply(message []byte) bool {
	const opMsg, moreToCome = 2013, 2
	return len(message) >= headerLength+4 &&
		binary.LittleEndian.Uint32(message[12:]) == opMsg &&
		binary.LittleEndian.Uint32(message[headerLength:])&moreToCome != 0
}
