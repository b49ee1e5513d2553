-- Weft's packets in Wireshark: on UDP, and as Ethernet frames of their own.
--
--   wireshark -X lua_script:weft.lua packets-0.pcapng
--
-- These files describe the formats: crates/weft-core/src/wire.rs, connection.rs, message.rs and
-- path_validation.rs, and crates/weft-net/src/ethernet/frame.rs. This file follows them. All numbers are
-- little-endian, except those in front of a packet in an Ethernet frame. This file cannot prove a packet: the
-- tag needs the job's secret.

local weft = Proto("weft", "Weft")

-- Sizes and bits of wire.rs.
local HEADER, ECHO, MESSAGES_PREFIX, DATA_PREFIX, PIECE_PREFIX = 28, 10, 8, 16, 24
local MAP_BYTES_MAX, RUN_BYTES, RUN_MAX = 8 * 32, 3, 1048576
local KIND_MASK, WITH_ECHO = 7, 8
local KINDS = { [0] = "Acknowledgement", [1] = "Probe", [2] = "Messages", [3] = "Data", [4] = "Data, end" }
-- Added to the last three of these: an acknowledgement is wanted at once.
local REQUEST = 3
-- connection.rs.
local CONNECTION_HEADER, CONNECTION_DATA = 16, 12
local CONNECTION_KINDS = { [0xe0] = "Messages", [0xe1] = "Data", [0xe2] = "Probe", [0xe3] = "Answer to a probe" }
-- path_validation.rs.
local REACH_MARK, REACH_KINDS = 0xff, { [1] = "Question", [2] = "Answer" }
-- frame.rs: "local experimental 1", and ours among the experiments.
local ETHER_TYPE, MAGIC, FRAME_HEADER = 0x88b5, 0x5766, 6
-- The port that weft-sim writes.
local SIMULATED_PORT = 49377

local FRAMES = {
    [1] = "Eager", [2] = "EagerFirst", [3] = "EagerMore", [4] = "Rendezvous", [5] = "ClearToSend", [6] = "Data", [7] = "Fin",
    [8] = "Credit", [9] = "Retract", [10] = "Retracted",
}
-- The fields of each frame behind its four bytes, in order: those of message.rs.
local function with_envelope(...)
    return { "context", "source", "mpi_tag", ... }
end
local LAYOUTS = {
    [1] = with_envelope("request"), [2] = with_envelope("request", "total"), [3] = {},
    [4] = with_envelope("request", "total", "address"), [5] = { "request", "sink", "limit", "total" }, [6] = { "sink", "offset" },
    [7] = { "request" }, [8] = { "bytes" }, [9] = { "context", "request" }, [10] = { "request" },
}
local HAS_PAYLOAD = { [1] = true, [2] = true, [3] = true, [6] = true }

local f = {
    -- In front of a packet in a frame.
    magic = ProtoField.uint16("weft.ethernet.magic", "Magic", base.HEX),
    port = ProtoField.uint16("weft.ethernet.port", "Process on the destination host", base.DEC),
    packet_length = ProtoField.uint16("weft.ethernet.length", "Bytes of the packet", base.DEC),
    -- Every packet.
    tag = ProtoField.bytes("weft.tag", "Tag"),
    sender = ProtoField.uint24("weft.sender", "Sender's index in the job", base.DEC),
    flags = ProtoField.uint8("weft.flags", "Flags", base.HEX),
    kind = ProtoField.uint8("weft.kind", "Kind", base.DEC, KINDS),
    request_flag = ProtoField.bool("weft.flags.request", "Wants an acknowledgement"),
    has_echo = ProtoField.bool("weft.flags.echo", "Has an echo", 8, nil, WITH_ECHO),
    marked = ProtoField.bool("weft.flags.marked", "A packet came with a mark of congestion", 8, nil, 16),
    way = ProtoField.uint8("weft.flags.path", "Path: 0 is that of messages, the others are of bulk data", base.DEC, nil, 0xe0),
    number = ProtoField.uint32("weft.number", "Packet number", base.DEC),
    acknowledged = ProtoField.uint32("weft.acknowledged", "Acknowledged up to before", base.DEC),
    selective = ProtoField.uint64("weft.selective", "Arrived beyond the first missing", base.HEX),
    map = ProtoField.uint64("weft.map", "Arrived beyond that", base.HEX),
    not_told = ProtoField.uint32("weft.runs.not_told", "Packets beyond that of which nothing is told", base.DEC),
    run = ProtoField.uint32("weft.runs.arrived", "Packets beyond these that have arrived", base.DEC),
    echoed = ProtoField.uint32("weft.echo.number", "Echo of", base.DEC),
    echo_transmission = ProtoField.uint8("weft.echo.transmission", "Its transmission", base.DEC, { [0] = "it is a probe" }),
    hold = ProtoField.double("weft.echo.hold_us", "It waited for its answer, µs"),
    away = ProtoField.double("weft.echo.away_us", "It may have waited before, µs"),
    -- Messages and data.
    length = ProtoField.uint16("weft.length", "Bytes of payload", base.DEC),
    order = ProtoField.uint8("weft.order", "Place among the transmissions of its way", base.DEC),
    transmission = ProtoField.uint8("weft.transmission", "Transmission", base.DEC),
    first = ProtoField.uint32("weft.first", "Number of the first message", base.DEC),
    data_sink = ProtoField.uint32("weft.data.remote_key", "Remote key", base.DEC),
    data_offset = ProtoField.uint64("weft.data.offset", "Offset", base.DEC),
    data = ProtoField.bytes("weft.data", "Data"),
    sealed = ProtoField.bytes("weft.sealed", "Sealed payload"),
    -- Messages of the job's processes.
    frame_length = ProtoField.uint16("weft.frame.length", "Bytes", base.DEC),
    frame = ProtoField.uint8("weft.frame.kind", "Frame", base.DEC, FRAMES),
    option = ProtoField.uint8("weft.frame.option", "Has the optional field", base.DEC),
    context = ProtoField.uint32("weft.frame.context", "Context of the communicator", base.DEC),
    source = ProtoField.uint32("weft.frame.source", "Source's rank", base.DEC),
    mpi_tag = ProtoField.int32("weft.frame.tag", "Tag", base.DEC),
    request = ProtoField.uint32("weft.frame.request", "Request", base.DEC),
    total = ProtoField.uint64("weft.frame.total", "Bytes of the whole message", base.DEC),
    address = ProtoField.uint64("weft.frame.address", "Address", base.HEX),
    sink = ProtoField.uint32("weft.frame.remote_key", "Remote key", base.DEC),
    limit = ProtoField.uint64("weft.frame.limit", "Bytes granted so far", base.DEC),
    offset = ProtoField.uint64("weft.frame.offset", "Offset", base.DEC),
    bytes = ProtoField.uint64("weft.frame.bytes", "Bytes of credit", base.DEC),
    payload = ProtoField.bytes("weft.frame.payload", "Payload"),
    -- Path validation: the question whether a carrier carries packets at all.
    reach = ProtoField.uint8("weft.reach.kind", "Reach", base.DEC, REACH_KINDS),
    connection = ProtoField.uint8("weft.connection.kind", "Connection", base.HEX, CONNECTION_KINDS),
    reach_number = ProtoField.uint32("weft.reach.number", "Question number", base.DEC),
}
local WIDTHS = {
    context = 4, source = 4, mpi_tag = 4, request = 4, sink = 4, total = 8, address = 8, limit = 8, offset = 8, bytes = 8,
}
weft.fields = f

local wrong = ProtoExpert.new("weft.wrong", "Not as the protocol has it", expert.group.MALFORMED, expert.severity.WARN)
weft.experts = { wrong }

-- The kind without the request, and whether there is one.
local function kind_of(flags)
    local kind = bit.band(flags, KIND_MASK)
    if kind >= 2 + REQUEST then return kind - REQUEST, true end
    return kind, false
end

-- The place where the payload of messages or data begins, its announced length, and whether 16 bytes of a
-- seal follow it. `whole`: the bytes of the packet as it travelled; a capture may have fewer. nil: the packet
-- is none of these. Data that is not sealed may be filled up with zeros to the length of the packets around
-- it.
local function payload(tvb, whole)
    local flags = tvb(11, 1):uint()
    local kind = kind_of(flags)
    local prefix = kind == 2 and MESSAGES_PREFIX or DATA_PREFIX
    local at = HEADER + (bit.band(flags, WITH_ECHO) ~= 0 and ECHO or 0)
    if tvb:len() < at + prefix then return nil end
    local length = tvb(at, 2):le_uint()
    local over = whole - at - prefix - length
    if over < 0 or length == 0 and kind ~= 2 then return nil end
    -- A question whether the path carries a packet of this size.
    if length == 0 then return at, 0, false end
    local filled = kind ~= 2 and over > 0 and (over ~= 16 or tvb:len() >= whole and tvb(whole - 8, 8):le_uint64() == UInt64(0))
    if over ~= 0 and over ~= 16 and not filled then return nil end
    return at, length, over == 16 and not filled
end

-- A number in runs that begins at this byte, and the byte behind it; nil: there is none.
local function run_at(tvb, at)
    local value = 0
    for place = 0, RUN_BYTES - 1 do
        if at + place >= tvb:len() then return nil end
        local byte = tvb(at + place, 1):uint()
        value = value + bit.lshift(bit.band(byte, 0x7f), 7 * place)
        if byte < 0x80 then return value, at + place + 1 end
    end
    return nil
end

-- Returns whether runs stand there, to the end of the packet as it travelled; a capture may have fewer.
local function is_runs(tvb, at, whole)
    if (whole - at) % 8 == 0 then return false end
    local packets, value = 0, nil
    while at < tvb:len() do
        value, at = run_at(tvb, at)
        if not value then return tvb:len() < whole end
        packets = packets + value
        if packets > RUN_MAX then return false end
    end
    return true
end

-- Returns whether these bytes can be a packet of a flow. There is no magic number, so lengths must fit.
local function is_packet(tvb, whole)
    if tvb:len() < HEADER then return false end
    local flags = tvb(11, 1):uint()
    local kind = kind_of(flags)
    local echo = bit.band(flags, WITH_ECHO) ~= 0
    local rest = whole - HEADER - (echo and ECHO or 0)
    if kind == 0 then return rest >= 0 and (rest <= MAP_BYTES_MAX and rest % 8 == 0 or is_runs(tvb, whole - rest, whole)) end
    if kind == 1 then return rest == 0 or rest > PIECE_PREFIX end
    return payload(tvb, whole) ~= nil
end

-- Returns whether these bytes can be a packet of a connection, over a carrier that loses none.
local function is_connection(tvb, whole)
    return whole >= CONNECTION_HEADER and tvb:len() >= CONNECTION_HEADER and CONNECTION_KINDS[tvb(11, 1):uint()] ~= nil
end

local function is_reach(tvb, whole)
    return whole == HEADER and tvb:len() == HEADER and tvb(11, 1):uint() == REACH_MARK and REACH_KINDS[tvb(12, 1):uint()] ~= nil
end

local function dissect_reach(tvb, pinfo, tree)
    tree:add(f.tag, tvb(0, 8))
    tree:add_le(f.sender, tvb(8, 3))
    tree:add(f.reach, tvb(12, 1))
    tree:add_le(f.reach_number, tvb(16, 4))
    pinfo.cols.info = string.format("%d: reach, %s %d", tvb(8, 3):le_uint(), REACH_KINDS[tvb(12, 1):uint()]:lower(), tvb(16, 4):le_uint())
end

-- One message: returns words for the list of packets.
local function dissect_frame(tvb, tree)
    local kind = tvb:len() > 0 and tvb(0, 1):uint() or 0
    local name = FRAMES[kind]
    if not name or tvb:len() < 4 then
        tree:add_proto_expert_info(wrong)
        return "?"
    end
    tree:add(f.frame, tvb(0, 1))
    tree:add(f.option, tvb(1, 1))
    local at, words = 4, name
    for _, field in ipairs(LAYOUTS[kind]) do
        local width = WIDTHS[field]
        if tvb:len() < at + width then
            tree:add_proto_expert_info(wrong)
            return words
        end
        tree:add_le(f[field], tvb(at, width))
        if field == "mpi_tag" then words = words .. " tag " .. tvb(at, 4):le_int() end
        at = at + width
    end
    if HAS_PAYLOAD[kind] and tvb:len() > at then tree:add(f.payload, tvb(at)) end
    tree:append_text(": " .. words)
    return words
end

-- The messages of a packet, as far as they were captured; each has its length in front.
local function dissect_messages(tvb, tree, length)
    local at, words = 0, {}
    while at + 2 <= math.min(length, tvb:len()) do
        local size = tvb(at, 2):le_uint()
        local here = math.min(size, tvb:len() - at - 2)
        local item = tree:add(weft, tvb(at, 2 + here), "Message")
        item:add_le(f.frame_length, tvb(at, 2))
        if here == 0 then break end
        words[#words + 1] = dissect_frame(tvb(at + 2, here):tvb(), item)
        at = at + 2 + size
    end
    return table.concat(words, ", ")
end

local function dissect_echo(tvb, tree)
    tree:add_le(f.echoed, tvb(0, 4))
    tree:add(f.echo_transmission, tvb(4, 1))
    local hold = tvb(5, 3):le_uint()
    if hold ~= 0xffffff then tree:add(f.hold, tvb(5, 3), hold * 0.064) end
    tree:add(f.away, tvb(8, 2), tvb(8, 2):le_uint() * 1.024)
end

local function dissect_packet(tvb, pinfo, tree, whole)
    local flags = tvb(11, 1):uint()
    local kind, request = kind_of(flags)
    tree:add(f.tag, tvb(0, 8))
    tree:add_le(f.sender, tvb(8, 3))
    local flag_tree = tree:add(f.flags, tvb(11, 1))
    flag_tree:add(f.kind, tvb(11, 1), kind)
    flag_tree:add(f.request_flag, tvb(11, 1), request)
    for _, field in ipairs({ f.has_echo, f.marked, f.way }) do flag_tree:add(field, tvb(11, 1)) end
    tree:add_le(f.number, tvb(12, 4))
    tree:add_le(f.acknowledged, tvb(16, 4))
    tree:add_le(f.selective, tvb(20, 8))
    local at = HEADER
    if bit.band(flags, WITH_ECHO) ~= 0 then
        if tvb:len() < at + ECHO then return end
        dissect_echo(tvb(at, ECHO):tvb(), tree:add(weft, tvb(at, ECHO), "Echo"))
        at = at + ECHO
    end
    local info = string.format("%d: %s %u, ack %u", tvb(8, 3):le_uint(), KINDS[kind], tvb(12, 4):le_uint(), tvb(16, 4):le_uint())
    if kind == 0 then
        if is_runs(tvb, at, whole) then
            local arrived = false
            while at < tvb:len() do
                local value, behind = run_at(tvb, at)
                if not value then break end
                tree:add(arrived and f.run or f.not_told, tvb(at, behind - at), value)
                at, arrived = behind, not arrived
            end
        end
        while at + 8 <= tvb:len() do
            tree:add_le(f.map, tvb(at, 8))
            at = at + 8
        end
    elseif kind == 1 and at + PIECE_PREFIX <= tvb:len() then
        info = string.format("%d: Piece %u of packet %u, from byte %u of %u, ack %u", tvb(8, 3):le_uint(), tvb(12, 4):le_uint(),
                             tvb(at + 4, 4):le_uint(), tvb(at + 10, 2):le_uint(), tvb(at + 8, 2):le_uint(), tvb(16, 4):le_uint())
        tree:add(f.order, tvb(at + 1, 1))
        tree:add(f.transmission, tvb(at + 2, 1))
        if at + PIECE_PREFIX < tvb:len() then tree:add(f.data, tvb(at + PIECE_PREFIX)) end
    elseif kind >= 2 then
        local _, length, is_sealed = payload(tvb, whole)
        tree:add_le(f.length, tvb(at, 2))
        tree:add(f.order, tvb(at + 2, 1))
        tree:add(f.transmission, tvb(at + 3, 1))
        if tvb(at + 3, 1):uint() > 1 then info = info .. " (sent again)" end
        if kind == 2 then
            tree:add_le(f.first, tvb(at + 4, 4))
            at = at + MESSAGES_PREFIX
        else
            tree:add_le(f.data_sink, tvb(at + 4, 4))
            tree:add_le(f.data_offset, tvb(at + 8, 8))
            info = info .. string.format(": %d bytes at %s of sink %u", length, tostring(tvb(at + 8, 8):le_uint64()), tvb(at + 4, 4):le_uint())
            at = at + DATA_PREFIX
        end
        if kind == 2 and length == 0 then
            info = info .. string.format(": asks whether %d bytes get through", whole)
        elseif at < tvb:len() then
            if is_sealed then
                tree:add(f.sealed, tvb(at))
                info = info .. " (sealed)"
            elseif kind == 2 then
                info = info .. ": " .. dissect_messages(tvb(at):tvb(), tree, length)
            else
                tree:add(f.data, tvb(at))
            end
        end
    end
    pinfo.cols.info = info
end

local function dissect_connection(tvb, pinfo, tree, whole)
    local kind = tvb(11, 1):uint()
    tree:add(f.tag, tvb(0, 8))
    tree:add_le(f.sender, tvb(8, 3))
    tree:add(f.connection, tvb(11, 1))
    tree:add_le(f.number, tvb(12, 4))
    local info = string.format("%d: connection, %s %u", tvb(8, 3):le_uint(), CONNECTION_KINDS[kind]:lower(), tvb(12, 4):le_uint())
    local here = tvb:len() - CONNECTION_HEADER
    if kind == 0xe0 and here >= 2 then
        info = info .. ": " .. dissect_messages(tvb(CONNECTION_HEADER):tvb(), tree, whole - CONNECTION_HEADER)
    elseif kind == 0xe1 and here >= CONNECTION_DATA then
        tree:add_le(f.sink, tvb(CONNECTION_HEADER, 4))
        tree:add_le(f.offset, tvb(CONNECTION_HEADER + 4, 8))
        info = info .. string.format(", %d bytes", whole - CONNECTION_HEADER - CONNECTION_DATA)
    end
    pinfo.cols.info = info
end

-- A packet, `whole` bytes long on its way.
local function dissect(tvb, pinfo, root, whole)
    pinfo.cols.protocol = "Weft"
    local tree = root:add(weft, tvb())
    if is_reach(tvb, whole) then
        dissect_reach(tvb, pinfo, tree)
    elseif is_connection(tvb, whole) then
        dissect_connection(tvb, pinfo, tree, whole)
    elseif is_packet(tvb, whole) then
        dissect_packet(tvb, pinfo, tree, whole)
    else
        tree:add_proto_expert_info(wrong)
        pinfo.cols.info = "not a packet"
    end
    return tvb:len()
end

function weft.dissector(tvb, pinfo, root)
    return dissect(tvb, pinfo, root, tvb:reported_len())
end

-- UDP: the system chooses the ports, so packets are recognized by their content. A packet with messages or
-- data has its length written in it. After the first such packet, or a packet of path validation or of a
-- connection, all packets between these two ends count as Weft's.
weft:register_heuristic("udp", function(tvb, pinfo, root)
    local whole = tvb:reported_len()
    local is_sure = is_packet(tvb, whole) and bit.band(tvb(11, 1):uint(), KIND_MASK) >= 2
    if not is_sure and not is_reach(tvb, whole) and not is_connection(tvb, whole) then return false end
    pinfo.conversation = weft
    dissect(tvb, pinfo, root, whole)
    return true
end)

-- Frames: a magic number, the port of the process and the packet's length, since Ethernet pads.
local frames = Proto("weft_ethernet", "Weft on Ethernet")
function frames.dissector(tvb, pinfo, root)
    if tvb:len() < FRAME_HEADER or tvb(0, 2):uint() ~= MAGIC then return 0 end
    local tree = root:add(frames, tvb(0, FRAME_HEADER))
    tree:add(f.magic, tvb(0, 2))
    tree:add(f.port, tvb(2, 2))
    tree:add(f.packet_length, tvb(4, 2))
    local whole = tvb(4, 2):uint()
    local here = math.min(whole, tvb:len() - FRAME_HEADER)
    if here < HEADER then
        tree:add_proto_expert_info(wrong)
        return tvb:len()
    end
    dissect(tvb(FRAME_HEADER, here):tvb(), pinfo, root, whole)
    return tvb:len()
end

DissectorTable.get("ethertype"):add(ETHER_TYPE, frames)
DissectorTable.get("udp.port"):add(SIMULATED_PORT, weft)
