package redisstore

import "strconv"

// slotCount is how many slots a cluster has.
const slotCount = 16_384

// tagsFor finds a hash tag for each of n shards, such that shard i falls into
// slot i·16384/n: tags chosen at random would load the fullest master half as
// much again as the mean. The search is the same everywhere, so that all
// gateways find the same tags.
func tagsFor(n int) []string {
	wanted := make(map[uint16]int, n)
	for i := range n {
		wanted[slotOfShard(i, n)] = i
	}
	tags := make([]string, n)
	for candidate := int64(0); len(wanted) > 0; candidate++ {
		tag := strconv.FormatInt(candidate, 36)
		if i, ok := wanted[slotOf(tag)]; ok {
			tags[i] = tag
			delete(wanted, slotOf(tag))
		}
	}
	return tags
}

// slotOfShard is the slot that shard i of n is put into.
func slotOfShard(i, n int) uint16 { return uint16(i * slotCount / n) }

// slotOf is the cluster's slot of a tag: CRC-16 (XMODEM) modulo 16384.
func slotOf(tag string) uint16 {
	var crc uint16
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slotCount
}
