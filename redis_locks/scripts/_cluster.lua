-- First of each script on a cluster. While a slot moves to another node key by key, a key that is
-- not here (any more) is an error, in the middle of a script too, and what it wrote before stays.
-- So a key that there never is comes first: the script fails before it writes, or not at all.

redis.call("EXISTS", string.sub(KEYS[1], 1, -6) .. "nowhere")
