package match

// none means "no node", "no rule list", "no entry".
const none = int32(-1)

// edges maps (owner, text) to a number. Go seeds the hash of each map, so that no caller can
// choose texts that collide.
type edges map[edge]int32

type edge struct {
	owner int32
	text  string
}

// find returns the number of an owner and a text, or none.
func (e edges) find(owner int32, text string) int32 {
	if value, ok := e[edge{owner, text}]; ok {
		return value
	}
	return none
}
