package powercut

const chunkSize = 4096

// content is a file's bytes. Chunks are never changed once they are in a content, so
// that a clone costs no more than their list.
type content struct {
	chunks []*[chunkSize]byte // nil for zeros
	size   int64
}

func (c content) clone() content {
	return content{append([]*[chunkSize]byte(nil), c.chunks...), c.size}
}

// write puts data at a place, and makes the file longer where that is needed.
func (c *content) write(data []byte, at int64) {
	c.size = max(c.size, at+int64(len(data)))
	for int64(len(c.chunks))*chunkSize < c.size {
		c.chunks = append(c.chunks, nil)
	}
	for len(data) > 0 {
		i, from := at/chunkSize, int(at%chunkSize)
		fresh := new([chunkSize]byte)
		if old := c.chunks[i]; old != nil && (from > 0 || len(data) < chunkSize) {
			*fresh = *old
		}
		n := copy(fresh[from:], data)
		c.chunks[i] = fresh
		data, at = data[n:], at+int64(n)
	}
}

// truncate makes the file shorter or, with zeros, longer.
func (c *content) truncate(size int64) {
	if n := (size + chunkSize - 1) / chunkSize; n < int64(len(c.chunks)) {
		c.chunks = c.chunks[:n]
	}
	if size < c.size && size%chunkSize > 0 {
		if last := c.chunks[size/chunkSize]; last != nil {
			fresh := new([chunkSize]byte)
			copy(fresh[:size%chunkSize], last[:])
			c.chunks[size/chunkSize] = fresh
		}
	}
	c.size = size
	for int64(len(c.chunks))*chunkSize < c.size {
		c.chunks = append(c.chunks, nil)
	}
}

// read fills p from a place on; what lies behind the end is zeros, and n tells how much
// did not.
func (c *content) read(p []byte, at int64) (n int) {
	clear(p)
	n = int(max(0, min(int64(len(p)), c.size-at)))
	for rest := p[:n]; len(rest) > 0; {
		i, from := at/chunkSize, int(at%chunkSize)
		step := min(chunkSize-from, len(rest))
		if chunk := c.chunks[i]; chunk != nil {
			copy(rest[:step], chunk[from:])
		}
		rest, at = rest[step:], at+int64(step)
	}
	return n
}
