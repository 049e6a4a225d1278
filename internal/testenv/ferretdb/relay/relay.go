// Package relay forwards the commands of many MongoDB clients to a server one at a time.
//
// In MongoDB an update of one document is atomic. FerretDB v1 reads, compares and writes
// in three steps, so that two concurrent compare-and-sets could both succeed. Sending one
// command at a time makes updates atomic.
package relay

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	headerLength = 16       // header of the wire protocol
	maxMessage   = 64 << 20 // MongoDB's limit is 48 MB
)

// Serve forwards clients of the listener to the server until the listener is closed.
func Serve(listener net.Listener, server string) error {
	var mu sync.Mutex
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = client.Close() }()
			_ = serve(client, server, &mu) // a side closed the connection
		}()
	}
}

func serve(client net.Conn, server string, mu *sync.Mutex) error {
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
		reply, err := exchange(upstream, request, mu)
		if err != nil {
			return err
		}
		if _, err := client.Write(reply); err != nil {
			return err
		}
	}
}

// exchange sends a request and waits for its reply, while no other request is sent. A
// request without a reply returns nil.
func exchange(upstream net.Conn, request []byte, mu *sync.Mutex) ([]byte, error) {
	mu.Lock()
	defer mu.Unlock()
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
